"""Classes of a command: read, write locally, use a network, install, destroy, access credentials.

Two sources are combined: the class that the operator's allowlist assigns to a tool, and the command's own words. The classes
are recorded, and *destructive* requires a statement (``destructive.py``). ``gate.py`` decides what may run at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath

from gatewright.secret_names import CREDENTIAL_FILES, CREDENTIAL_PLACES, SSH_KEYS
from gatewright.services.gatekeeper.policies.commands import CommandClass

_READ = CommandClass.READ_ONLY
_NETWORK = CommandClass.NETWORK
_INSTALL = CommandClass.DEPENDENCY_INSTALL
_DESTROYS = CommandClass.DESTRUCTIVE
_CREDENTIALS = CommandClass.CREDENTIAL_SENSITIVE

#: Programs of a class with any arguments.
_PROGRAMS: dict[CommandClass, str] = {
    _NETWORK: "curl wget ssh scp sftp rsync rclone nc ncat socat telnet ftp ping dig host nslookup gh aws gcloud az kubectl",
    _INSTALL: "npx uvx pnpx bunx easy_install pacman corepack",
    _DESTROYS: "dd shred truncate mkfs wipefs fdisk sfdisk parted blkdiscard rmdir unlink dropdb srm kill pkill killall reboot",
    _CREDENTIALS: "printenv gpg ssh-add ssh-keygen pass security secret-tool vault op aws-vault getent",
}
#: Sequences of words, in order but not necessarily adjacent; the first is the program, ``a|b`` is either.
_RUNS: dict[CommandClass, tuple[str, ...]] = {
    _INSTALL: (
        "pip|pip3|pipx|npm|pnpm|yarn|bun|cargo|go|conda|mamba|poetry|bundle|composer|gem install",
        "apt|apt-get|dnf|yum|zypper|brew install",
        "npm|pnpm|yarn|poetry|uv|cargo|apk|bun|pdm add",
        "npm|pnpm ci|i|it|exec|dlx|update|upgrade|rebuild|install-test|install-ci-test",
        "uv|pdm|poetry|pipenv sync|pip|run|update",
        "pipx|go run",
        "go get",
        "cargo|composer|bundle update",
    ),
    _NETWORK: (
        "git push|fetch|pull|clone|ls-remote|submodule",
        "go mod download",
        "pip|pip3 download|index",
        "docker|podman push|pull|login|build",
        "npm|cargo|poetry|uv|twine|pnpm|yarn publish|upload|login|audit|view",
    ),
    _DESTROYS: (
        "git clean|filter-branch|filter-repo|reflog|gc|prune|restore|rm|update-ref",
        "git reset --hard|--merge|--keep",
        "git push --force|-f|--force-with-lease|--mirror|--delete|-d|--prune",
        "git branch|tag -D|-d|--delete|-f",
        "git checkout|switch --|.|-f|--force|--discard-changes",
        "git stash drop|clear",
        "git worktree|remote remove|prune",
        "aws rm|rb|delete|terminate-instances",
        "docker|docker-compose|podman down|rmi|kill|volume",
        "pip|pip3|npm|apt|apt-get uninstall|remove|purge",
        "find -delete|-exec|-execdir",
        "docker|podman prune|rm",
        "kubectl delete",
        "terraform destroy",
        "make clean|distclean",
        "rsync --delete",
    ),
    _CREDENTIALS: (
        "gh auth|secret",
        "git credential|credential-store|credential-cache",
        "npm|pnpm|yarn token|login|adduser",
        "docker|podman login",
        "aws|gcloud|az sts|configure|auth|account|secretsmanager|ssm",
        "kubectl secret|secrets|config",
    ),
}
#: Parts of paths where credentials are stored.
_SENSITIVE = CREDENTIAL_PLACES | SSH_KEYS | CREDENTIAL_FILES | {"shadow", "gshadow", "environ"}
_WRAPPERS = frozenset(
    ("env", "nice", "nohup", "timeout", "time", "stdbuf", "xargs", "sudo", "doas", "setsid", "ionice", "command")
)
_INTERPRETERS = frozenset(("python", "python3"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "eval"))
_DELETING_FLAGS = frozenset("rRf")

#: Maximum chain of wrappers and interpreters.
_MOST_PROGRAMS = 16

Classify = Callable[[tuple[str, ...]], Iterable[str]]


def classify(argv: Sequence[str]) -> frozenset[CommandClass]:
    """Return the classes that a command's words imply; *read-only* alone when they imply none.

    Only the program's base name is used. Wrappers (``env``, ``nice``, ``python -m``) and inline shell scripts are searched too.
    """
    words = [PurePosixPath(word).name or word for word in argv]
    found: set[CommandClass] = set()
    if words and words[-1] == "env":
        found.add(_CREDENTIALS)
    programs_named = tuple(islice(_programs(words), _MOST_PROGRAMS + 1))
    if len(programs_named) > _MOST_PROGRAMS:
        return frozenset(CommandClass)  # not a real command; parsing each word's rest would cost too much
    for start in programs_named:
        program, rest = words[start], words[start + 1 :]
        found.update(kind for kind, programs in _PROGRAMS.items() if program in programs.split())
        found.update(kind for kind, runs in _RUNS.items() if any(_runs_program(run.split(), program, rest) for run in runs))
        if program == "rm" and any(_deletes_much(word) for word in rest):
            found.add(_DESTROYS)
        if program == "git" and "push" in rest and any(word.startswith(("+", ":")) for word in rest):
            found.add(_DESTROYS)
        if program in _SHELLS:
            found.update(*(classify(part) for part in _commands_of(argv[start + 1 :])))
    if any(not _SENSITIVE.isdisjoint(word.split("/")) for word in argv):
        found.add(_CREDENTIALS)
    if _INSTALL in found:
        found.add(_NETWORK)
    return frozenset(found - {_READ} or {_READ})


def _programs(words: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of program names: the first word, and programs that wrappers and interpreters start."""
    at = 0
    while at < len(words):
        yield at
        if words[at] in _INTERPRETERS and words[at + 1 : at + 2] == ["-m"]:
            at += 2
            continue
        if words[at] not in _WRAPPERS:
            return
        at += 1
        while at < len(words) and (words[at].startswith("-") or "=" in words[at] or words[at][:1].isdigit()):
            at += 1


def _commands_of(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands inside a shell's words, each read as a script. An approximation: too many rather than too few."""
    for word in words:
        if not word.startswith("-"):
            yield from (part.split() for part in re.split(r"[;&|\n(){}`'\"]+|\$\(", word))  # noqa: TID251 - linear: each try ends where the next one begins


def _deletes_much(word: str) -> bool:
    if word in {"--recursive", "--force"}:
        return True
    return word.startswith("-") and not word.startswith("--") and not _DELETING_FLAGS.isdisjoint(word)


def _runs_program(run: Sequence[str], program: str, words: Sequence[str]) -> bool:
    """Return whether ``program`` and, in order, the other words of ``run`` occur."""
    left = iter(words)
    return program in run[0].split("|") and all(any(word in each.split("|") for word in left) for each in run[1:])
