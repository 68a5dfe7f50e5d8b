"""What a command does by its kind: read, write here, use a network, install, destroy, touch credentials.

Two opinions, and both count: the class that the operator's allowlist gives to a tool, and what the words themselves tell. It is
recorded, and *destructive* asks for a statement (``destructive.py``); what may run at all is for ``commands.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from services.gatekeeper.command_policy import CommandClass

_READ = CommandClass.READ_ONLY
_NETWORK = CommandClass.NETWORK
_INSTALL = CommandClass.DEPENDENCY_INSTALL
_DESTROYS = CommandClass.DESTRUCTIVE
_CREDENTIALS = CommandClass.CREDENTIAL_SENSITIVE

#: Programs that are of a class whatever they are given.
_PROGRAMS: dict[CommandClass, str] = {
    _NETWORK: "curl wget ssh scp sftp rsync nc ncat telnet ftp ping dig host",
    _INSTALL: "npx",
    _DESTROYS: "dd shred truncate mkfs wipefs fdisk rmdir unlink dropdb srm kill pkill killall",
    _CREDENTIALS: "printenv gpg ssh-add ssh-keygen pass security vault op aws-vault",
}
#: Runs of words, in this order but not side by side; the first is the program, ``a|b`` is either.
_RUNS: dict[CommandClass, tuple[str, ...]] = {
    _INSTALL: (
        "pip|pip3|npm|pnpm|gem|apt|apt-get|brew|cargo|go|conda|poetry install",
        "npm|pnpm|yarn|poetry|uv|cargo|apk|bun add",
        "npm ci|i",
        "uv sync",
        "go get",
    ),
    _NETWORK: (
        "git push|fetch|pull|clone|ls-remote",
        "docker|podman push|pull",
        "npm|cargo|poetry|uv publish",
    ),
    _DESTROYS: (
        "git clean|filter-branch|filter-repo|reflog|gc|prune",
        "git reset --hard",
        "git push --force|-f|--mirror|--delete",
        "git branch -D",
        "git checkout --",
        "git stash drop",
        "find -delete|-exec|-execdir",
        "docker|podman prune|rm",
        "kubectl delete",
        "terraform destroy",
        "make clean|distclean",
        "rsync --delete",
    ),
    _CREDENTIALS: ("gh auth", "git credential", "npm token", "docker login", "aws sts"),
}
#: Parts of paths that credentials lie in.
_SENSITIVE = frozenset(
    ".ssh .aws .gnupg .netrc .npmrc .pypirc .env .kube id_rsa id_ed25519 credentials shadow".split()  # noqa: SIM905 - a list
)
_WRAPPERS = frozenset(
    ("env", "nice", "nohup", "timeout", "time", "stdbuf", "xargs", "sudo", "doas", "setsid", "ionice", "command")
)
_INTERPRETERS = frozenset(("python", "python3"))
_DELETING_FLAGS = frozenset("rRf")

Classify = Callable[[tuple[str, ...]], Iterable[str]]


def classify(argv: Sequence[str]) -> frozenset[CommandClass]:
    """The classes that the words of a command tell; *read-only* alone where they tell nothing.

    The program counts by its name, whatever folder it lies in. A wrapper (``env``, ``nice``, ``python -m``) hides nothing.
    """
    words = [PurePosixPath(word).name or word for word in argv]
    found: set[CommandClass] = set()
    for start in _programs(words):
        program, rest = words[start], words[start + 1 :]
        found.update(kind for kind, programs in _PROGRAMS.items() if program in programs.split())
        found.update(kind for kind, runs in _RUNS.items() if any(_runs(run.split(), program, rest) for run in runs))
        if program == "rm" and any(_deletes_much(word) for word in rest):
            found.add(_DESTROYS)
    if any(not _SENSITIVE.isdisjoint(word.split("/")) for word in argv):
        found.add(_CREDENTIALS)
    if _INSTALL in found:
        found.add(_NETWORK)
    return frozenset(found or {_READ})


def _programs(words: Sequence[str]) -> Iterator[int]:
    """Where programs are named: the first word, and what wrappers and interpreters are told to start."""
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


def _deletes_much(word: str) -> bool:
    if word in {"--recursive", "--force"}:
        return True
    return word.startswith("-") and not word.startswith("--") and not _DELETING_FLAGS.isdisjoint(word)


def _runs(run: Sequence[str], program: str, words: Sequence[str]) -> bool:
    """Whether ``program`` and, in their order, the other words of ``run`` are there."""
    left = iter(words)
    return program in run[0].split("|") and all(any(word in each.split("|") for word in left) for each in run[1:])
