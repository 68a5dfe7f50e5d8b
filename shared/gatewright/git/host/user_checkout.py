"""The user's own checkout, read as the user's git reads it: under the user's configuration, through GitPython.

It reads facts only and writes nothing. The user may not have written the configuration (a folder that came with its
``.git``), so no program that it names is started: no hook, no filter, no file system monitor. ``gatewright.git.command``
reads mirrors, gates and the repositories of others, without any configuration of the user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from gatewright.contracts.people.authors import commit_author
from gatewright.contracts.vocabulary import Person
from gatewright.errors import GitError, MalformedError
from gatewright.git.command import HARDENED, NO_GRAFTS, CommandFailedError, GitCommand
from gatewright.git.host.damage import damage, damage_error
from gatewright.git.refs import check_ref, full_names, is_object_id, is_ref_name

if TYPE_CHECKING:
    from gatewright.git.process import Finished

_SECONDS: Final = 30.0
#: The most bytes that git may answer: to a question, and with a list.
_LIMIT: Final = 1 << 20
_LONG_LIMIT: Final = 64 << 20
_LONGEST_REVISION: Final = 1024
#: The form that git accepts as an abbreviated object id.
_SHORT_ID = re.compile(r"[0-9a-fA-F]{4,63}")  # noqa: TID251 - linear: one repetition
#: Settings that the user may choose; all others in ``HARDENED`` override the user's configuration.
_USERS: Final = frozenset({"core.attributesFile", "core.autocrlf", "core.ignoreCase", "safe.bareRepository"})
_SETTINGS: Final = {key: value for key, value in HARDENED.items() if key not in _USERS}
_FIXED: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    # Write no index, and so take no lock.
    "GIT_OPTIONAL_LOCKS": "0",
    # A commit is what it is in every clone.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": NO_GRAFTS,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
}
#: Hooks are installed for one repository: a folder that the user's configuration names is that of all of them.
_NO_MONITOR: Final = {"core.fsmonitor": "false"}
_NO_USER: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


@dataclass(frozen=True, slots=True)
class Folders:
    """Real paths. ``git_dir`` is that of this work tree, ``common`` that of all; ``top`` is None outside of a work tree."""

    git_dir: Path
    common: Path
    top: Path | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Name and address, each empty where it is not configured."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """The number of changed files in a work tree, and of untracked files."""

    changed: int
    untracked: int


class UserSigning(msgspec.Struct, frozen=True):
    """How the user's git signs commits in the repository with the common folder ``repository``, as its settings have it.

    ``fault``: why Gatewright cannot sign like that.
    """

    repository: str
    format: str
    key: str = ""
    program: str = ""
    committer: Person | None = None
    fault: str = ""


class UserCheckout:
    """The checkout that contains ``start``. ``environment`` is all that git sees of the user's variables.

    Creating one costs nothing; the first query loads GitPython. Every query may block for up to 30 seconds and raise
    GitError: ``not_a_repository`` (also for a repository of another account that ``safe.directory`` does not name),
    ``git_missing``, ``git_timeout``.

    Example:
        ``UserCheckout(Path.cwd(), {"PATH": ..., "HOME": ...}).exact_ref("origin/main")`` is ``refs/remotes/origin/main``.
    """

    def __init__(self, start: Path, environment: Mapping[str, str]) -> None:
        self.start = start.absolute()
        self._environment = {**environment, **_FIXED}

    @cached_property
    def folders(self) -> Folders:
        """Return the checkout's folders, by git's own upward search."""
        asked = ("--is-inside-work-tree", "--show-prefix", "--absolute-git-dir", "--git-common-dir")
        lines = self._path(*asked).split("\n")
        if len(lines) != len(asked):  # a path with a line end in it
            lines = [self._path(question) for question in asked]
        inside, prefix, git_dir, common = lines
        here = self.start.resolve()
        top = (here, *here.parents)[len(PurePosixPath(prefix).parts)] if inside == "true" else None
        return Folders(Path(git_dir).resolve(), (self.start / common).resolve(), top)

    @property
    def objects(self) -> GitCommand:
        """Return the hardened git for its objects, without the user's configuration."""
        return GitCommand(self.folders.git_dir)

    def hooks_folder(self) -> Path:
        """Return the folder where git looks for this repository's hooks, including its own ``core.hooksPath``."""
        return (self.start / self._path("--git-path", "hooks", settings=_NO_MONITOR, environment=_NO_USER)).resolve()

    def identity(self) -> Identity:
        """Return the committer's identity: ``author.*``, else ``user.*``, with includes resolved."""
        return self._person("author")

    def signing(self) -> UserSigning | None:
        """Return how the user's git signs commits here; None where it signs none (``commit.gpgSign``).

        A signing program is taken from the user's own files only: the repository may name any program.
        """
        if "commit.gpgsign" not in self._config or self._setting("commit.gpgSign", "--type=bool")[1] != "true":
            return None
        kind, key = (
            _as_text(self._config.get(name, usual)) for name, usual in (("gpg.format", "openpgp"), ("user.signingkey", ""))
        )
        fault = ""
        names = (f"gpg.{kind}.program", *(("gpg.program",) if kind == "openpgp" else ()))
        name = next((each for each in names if each in self._config), "")
        scope, program = self._setting(name) if name else ("", "")
        if kind not in {"ssh", "openpgp"}:
            fault = f"Gatewright signs with gpg.format ssh or openpgp, and git is set to {kind[:40]!a}"
        elif kind == "ssh" and not key:
            fault = "user.signingKey of git is not set"
        elif scope in {"local", "worktree"}:
            fault = f"{name} is a setting of the repository, which may be hostile: set it with git config --global"
        home = self._environment.get("HOME", "~")
        key, program = (f"{home}{value[1:]}" if value.startswith("~/") else value for value in (key, program))
        who = self._person("committer")
        return UserSigning(str(self.folders.common), kind, key, program, commit_author(who.name, who.email), fault)

    def _person(self, role: str) -> Identity:
        """Return the identity of the ``author`` or the ``committer`` of new commits."""
        found = (self._config.get(f"{role}.{key}") or self._config.get(f"user.{key}", "") for key in ("name", "email"))
        return Identity(*map(_as_text, found))

    def _setting(self, name: str, *options: str) -> tuple[str, str]:
        """Return the scope and the value of a setting; both are empty without one."""
        shown = self._run_git("config", "--show-scope", "--null", "--includes", *options, "--get", name, ok=(0, 1)).stdout
        scope, _, value = shown.decode("utf-8", "replace").removesuffix("\0").partition("\0")
        return scope, value

    def exact_ref(self, name: str) -> str:
        """``name`` in a form that means the same in every clone's copy of the repository.

        ``HEAD``, a branch, a tag, a full ref name and a full commit id stay as they are. A branch of a remote (``origin/main``)
        becomes its full ref name; a short commit id or a revision expression (``HEAD~2``, ``@{upstream}``) becomes the full
        commit id. Raises GitError (``ref_not_found``, ``ref_ambiguous``) and MalformedError (``bad_ref``).
        """
        if not name or name.startswith("-") or not name.isprintable() or len(name) > _LONGEST_REVISION:
            raise MalformedError(f"not a name of a commit: {name[:80]!a}", code="bad_ref")
        if name == "HEAD" or name.startswith("refs/") or is_object_id(name.lower()):
            return check_ref(name)
        for full in (*full_names(name), f"refs/remotes/{name}") if is_ref_name(name) else ():
            if self._has_ref(full):
                return full if full.startswith("refs/remotes/") else name
        if commit := self._verify(f"{name}^{{commit}}"):
            return commit
        if _SHORT_ID.fullmatch(name):
            listed = self._run_git("rev_parse", f"--disambiguate={name}").stdout.split()
            if len(listed) > 1:
                message = f"{name} is the beginning of {len(listed)} object ids here: give more digits"
                raise GitError(message, code="ref_ambiguous")
        raise GitError(f"the repository has no branch, tag or commit {name!a}{self._near(name)}", code="ref_not_found")

    def commit_named(self, name: str) -> str:
        """The full id of the commit that a branch, tag, remote branch or commit id names. GitError (``ref_not_found``)."""
        if name != "HEAD":
            check_ref(name)
        for full in (f"refs/heads/{name}", f"refs/remotes/{name}", name) if name != "HEAD" else (name,):
            if commit := self._verify(f"{full}^{{commit}}"):
                return commit
            if object_id := self._verify(full):
                self._refuse_unreadable(object_id)
                raise GitError(f"{name!r} is no commit and no tag of one", code="ref_not_found")
        raise GitError(f"the repository has no branch and no commit {name!r}", code="ref_not_found")

    def resolve(self, revision: str = "HEAD") -> str:
        """The full commit id of ``revision``. GitError (``ref_not_found``)."""
        if commit := self._verify(f"{revision}^{{commit}}"):
            return commit
        raise GitError(f"there is no commit {revision} here; in a shallow clone, fetch it first", code="ref_not_found")

    def uncommitted(self, *, beyond_index: bool = False) -> Uncommitted:
        """Return the changes of the work tree since its last commit; none for a bare repository and before any commit.

        With ``beyond_index``: the changes since the index, which a commit of the index leaves out. Files that the user's
        own configuration ignores are not included.
        """
        shown = ("--porcelain=v2", "--branch", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal")
        # A configuration may name a work tree elsewhere; git would count the files there.
        if self.folders.top is None:
            return Uncommitted(0, 0)
        finished = self._run_git("status", *shown, settings=_SETTINGS | self._filters_off(), limit=_LONG_LIMIT)
        lines = finished.stdout.split(b"\0")
        if b"# branch.oid (initial)" in lines:
            return Uncommitted(0, 0)
        # "1 XY ..." and "u XY ...": what the index has, and what the work tree has beyond it.
        changed = sum(line[:2] in {b"1 ", b"u "} and (not beyond_index or line[3:4] != b".") for line in lines)
        return Uncommitted(changed, sum(line.startswith(b"? ") for line in lines))

    @cached_property
    def _config(self) -> dict[str, str]:
        """Return the last value of each setting, as git reads them, from one process.

        Outside a repository, and in one that git refuses, only the user's settings.
        """
        listed = self._run_git("config", "--null", "--list", "--includes", ok=(0, 1, 128), limit=_LONG_LIMIT)
        pairs = (entry.partition("\n") for entry in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if entry)
        return {key: value for key, _, value in pairs}

    def _filters_off(self) -> dict[str, str]:
        """Settings that switch off every filter: comparing files would start them."""
        drivers = {key.rpartition(".")[0] for key in self._config if key.startswith("filter.") and key.count(".") > 1}
        off = {"clean": "", "smudge": "", "process": "", "required": "false"}
        return {f"{driver}.{key}": value for driver in sorted(drivers) for key, value in off.items()}

    def _has_ref(self, full: str) -> bool:
        # Imported late: it loads GitPython.
        from gatewright.git.library_git import RefFiles

        return RefFiles(self.folders.common).has(full) or bool(self._verify(full))

    def _verify(self, revision: str) -> str:
        """The id of the object that ``revision`` names; empty for none."""
        asked = ("--verify", "--quiet", "--end-of-options", revision)
        finished = self._run_git("rev_parse", *asked, ok=(0, 1, 128))
        if finished.status == 128:
            _ = self.folders
        return finished.stdout.decode("ascii", "replace").strip()

    def _near(self, name: str) -> str:
        """Return a hint about a remote's branch of that name."""
        listed = self._run_git("for_each_ref", "--format=%(refname:lstrip=2)", "refs/remotes/", limit=_LONG_LIMIT)
        remote = (each for each in listed.stdout.decode("utf-8", "replace").split("\n") if each.partition("/")[2] == name)
        near = next(remote, None)
        return f"; did you mean {near}?" if near is not None else ""

    def _refuse_unreadable(self, object_id: str) -> None:
        """Raise GitError (``repository_damaged``, ``repository_partial``) where the object is lacking or cannot be read."""
        objects = self.folders.common / "objects"
        try:
            self._run_git("cat_file", "-t", object_id)
        except CommandFailedError as error:
            cause = damage(error, "the repository", objects)
            raise cause or damage_error("the repository", f"the object {object_id}", objects) from error

    def _path(
        self, *question: str, settings: Mapping[str, str] = _SETTINGS, environment: Mapping[str, str] | None = None
    ) -> str:
        """Return the answer of ``rev-parse``. Raises GitError (``not_a_repository``)."""
        try:
            finished = self._run_git("rev_parse", *question, settings=settings, environment=environment)
        except CommandFailedError as error:
            message = f"{self.start} is not a usable git repository: {error.output}"
            raise GitError(message, code="not_a_repository") from error
        return finished.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def _run_git(
        self,
        command: str,
        *arguments: str,
        ok: tuple[int, ...] = (0,),
        settings: Mapping[str, str] = _SETTINGS,
        environment: Mapping[str, str] | None = None,
        limit: int = _LIMIT,
    ) -> Finished:
        # Imported late: it loads GitPython.
        from gatewright.git.library_git import UserGit

        variables = {**self._environment, **(environment or {}), **_as_variables(settings)}
        git = UserGit(self.start, variables, seconds=_SECONDS, limit=limit)
        finished: Finished = getattr(git, command)(*arguments)
        if finished.status not in ok:
            raise CommandFailedError(command.replace("_", "-"), finished.status, finished.stdout, finished.stderr)
        return finished


def _as_text(value: str) -> str:
    """Return a setting as text that can be sent on, which cannot hold invalid bytes."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """``settings`` above all files of configuration. Unlike with ``-c``, a name of a filter may hold an equals sign."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
