"""A local repository's own rules for pushes: hooks, settings that refuse, read-only folders.

A hook is a program of the repository, which may be hostile, so Gatewright does not run it. Confinement would not help: what
the hook needs (the owner's keys, a service) would be out of its reach. Ignoring a rule would bypass it, so a target that
has one is refused, by name. A server that is reached by ssh or https applies its own rules.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.host.local_repository import LocalRepository
from gatewright.git.host.owner import owner_fault

HAS_HOOKS: Final = "target_has_hooks"
_TRANSACTION: Final = "reference-transaction"
READ_ONLY: Final = "target_read_only"
#: Hooks that may refuse a push. ``push-to-checkout`` is not one: it runs for a checked-out branch, where nothing lands.
REFUSING: Final = ("pre-receive", "update", "proc-receive", _TRANSACTION)
#: Hooks that run after a push.
REACTING: Final = ("post-receive", "post-update")
#: Hooks that are configured instead of lying in a folder can be switched off by event only from git 2.55 on: none may be there.
_CONFIGURED: Final = (*REFUSING, *REACTING, "push-to-checkout", "pre-auto-gc")
_ADVICE: Final = "land by ssh or https, whose server runs it, or take it away"
_FOLDERS: Final = ("", "objects", "refs", "refs/heads", "refs/heads/gatewright")
_ASKED: Final = r"^(core\.hookspath|hook\..*\.event|receive\.fsck\..*)$"

_HOOKS_PATH: Final = "core.hookspath"
_FSCK: Final = "receive.fsck."


@dataclass(frozen=True, slots=True)
class TargetRules:
    """A target's rules as text: ``refusing`` may refuse a push and are not applied here; ``reacting`` hooks would run after
    one."""

    refusing: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    reacting: tuple[str, ...] = ()
    #: Why git cannot write there as the owner; None where it can.
    owner: GitError | None = None

    def faults(self) -> Iterator[GitError]:
        """Yield why nothing can land there, with the code ``target_has_hooks``, ``target_read_only`` or ``target_not_own``."""
        for rule in self.refusing:
            yield GitError(f"the target has a rule that is not applied here: {rule}; {_ADVICE}", code=HAS_HOOKS)
        for folder in self.read_only:
            words = f"{folder} of the target is read-only for this account; land elsewhere, or have its owner allow it"
            yield GitError(words, code=READ_ONLY)
        if self.owner is not None:
            yield self.owner

    def refuse(self) -> None:
        """Raises the first of its faults."""
        for fault in self.faults():
            raise fault


#: For a repository that is reached by ssh or https, whose server applies its own rules.
NO_RULES: Final = TargetRules()


def target_rules(repository: LocalRepository) -> TargetRules:
    """The rules of a repository as they are now. GitError for a configuration that cannot be read."""
    settings = _settings(repository)
    events = {value for key, value in settings if key.startswith("hook.")}
    refusing = [f"the configured hook for {event}" for event in _CONFIGURED if event in events]
    refusing += [f"the setting {key}={value}" for key, value in settings if key.startswith(_FSCK) and value == "error"]
    folder = _hooks_folder(repository, [value for key, value in settings if key == _HOOKS_PATH])
    refusing += [f"the hook {path}" for path in _hooks(folder, REFUSING)]
    reacting = tuple(f"the hook {path}" for path in _hooks(folder, REACTING))
    return TargetRules(tuple(refusing), tuple(_read_only(repository.common)), reacting, owner_fault(repository))


def watching_hook(repository: LocalRepository) -> str:
    """Return the hook that runs at every ref update, including the owner's; empty if there is none. Raises GitError."""
    return next((rule for rule in target_rules(repository).refusing if _TRANSACTION in rule), "")


def _settings(repository: LocalRepository) -> list[tuple[str, str]]:
    """Return the hook settings of the repository's own files, in order, as key and value; keys are in lower case except
    names."""
    if not (repository.may_configure("hook") or repository.may_configure("fsck")):
        return []
    query = ("config", "--null", "--show-scope", "--includes", "--get-regexp", _ASKED)
    fields = GitCommand(repository.git_dir).execute(*query, ok=(0, 1)).decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if scope in {"local", "worktree"}:
            found.append((key, value))
    return found


def _hooks_folder(repository: LocalRepository, configured: list[str]) -> Path:
    """Return git's hooks folder for a push: a configured path is relative to the git folder, where hooks run."""
    if not configured:
        return repository.common / "hooks"
    given = configured[-1]
    if given == "~" or given.startswith("~/"):
        with contextlib.suppress(KeyError):
            return Path(pwd.getpwuid(repository.common.stat().st_uid).pw_dir, given[2:])
    return repository.git_dir / Path(given).expanduser()


def _hooks(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Those that git would start: they may be executed by their owner, a group or all."""
    for name in names:
        path = folder / name
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, RuntimeError) as error:
            raise GitError(f"the hook {path} of the target cannot be looked at: {error}", code=HAS_HOOKS) from error
        if mode & 0o111:
            yield path


def _read_only(common: Path) -> Iterator[str]:
    """The folders that this process may not write into, or not even their owner: a process of root could all the same."""
    for name in _FOLDERS:
        path = common / name
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode) and (not mode & 0o222 or not os.access(path, os.W_OK)):
                yield str(path)
