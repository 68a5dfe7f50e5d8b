"""The file in which a command, an agent or a model asks questions: removed from the change, and treated as data.

If the repository itself has a file of that name, it is an ordinary file, and no question can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from gatewright.clock import timestamp
from gatewright.contracts import Blocked, TaskContract, codec, strict_json
from gatewright.contracts.consultation import MOST_BLOCKED, MOST_REFUSED_WORDS, RefusedQuestion
from gatewright.errors import GatewrightError, MalformedError
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR, SUBMODULE, SYMLINK
from gatewright.rules.blocked.asking import BLOCKED_NAME, refuse_illegal

BLOCKED_FILE = BLOCKED_NAME.encode()
#: Of the artifacts: what of the file was no block, and why.
REFUSED_LOG = "blocked_refused"
#: Something else than a plain file lies at the reserved name; the file cannot be read as questions; it has too many.
NOT_A_FILE = "blocked_not_a_file"
UNREADABLE = "blocked_unreadable"
TOO_MANY = "blocked_too_many"
_MOST_BYTES = 64 * 1024
#: Documents of one file that are looked at, and refusals that are reported.
_MOST_READ = 100
_KINDS = {SYMLINK: "a symbolic link", SUBMODULE: "a submodule"}


@dataclass(frozen=True, slots=True)
class BlockedFile:
    """What lies at the reserved name: the bytes of a plain file, or what it is instead (``a symbolic link``)."""

    content: bytes = b""
    instead: str = ""


NO_FILE = BlockedFile()


@dataclass(frozen=True, slots=True)
class ReadQuestions:
    """Questions in the file, and the refused ones."""

    blocked: tuple[Blocked, ...] = ()
    refused: tuple[RefusedQuestion, ...] = ()

    @property
    def log(self) -> bytes:
        """The refusals, in lines."""
        return "".join(f"{each.code}: {each.message}\n" for each in self.refused).encode("utf-8", "replace")


async def may_ask(contract: TaskContract, mirror: Mirror, baseline: str) -> bool:
    """Return whether the questions of a task under this contract are forwarded to people. Raises GitError."""
    return contract.questions is not None and not await is_tracked(mirror, baseline)


async def is_tracked(mirror: Mirror, baseline: str) -> bool:
    """Return whether the repository has a file or folder of that name. Raises GitError."""
    return bool(await mirror.files(baseline, (BLOCKED_NAME,)))


async def take_blocked(
    changes: Sequence[FileChange], mirror: Mirror, baseline: str
) -> tuple[tuple[FileChange, ...], BlockedFile]:
    """The same as ``without_blocked``; all of the changes where the file is one of the repository's. Raises GitError."""
    kept, found = without_blocked(changes)
    if len(kept) != len(changes) and await is_tracked(mirror, baseline):
        return tuple(changes), BlockedFile()
    return kept, found


def without_blocked(changes: Sequence[FileChange]) -> tuple[tuple[FileChange, ...], BlockedFile]:
    """The changes without what lies at the reserved name, and what that is: nothing, a plain file, or something else."""
    own = [each for each in changes if _is_reserved(each.path)]
    left = tuple(each for each in changes if not _is_reserved(each.path))
    there = [each for each in own if each.mode is not None]
    if not there:
        return left, BlockedFile()
    first = there[0]
    if first.path != BLOCKED_FILE:
        return left, BlockedFile(instead="a folder")
    if first.mode in REGULAR:
        # An empty file asks nothing, and is no question that can be read.
        return left, BlockedFile(first.content) if first.content else BlockedFile(instead="an empty file")
    return left, BlockedFile(instead=_KINDS.get(first.mode or "", "no plain file"))


def _is_reserved(path: bytes) -> bool:
    return path == BLOCKED_FILE or path.startswith(BLOCKED_FILE + b"/")


def read_blocked(file: BlockedFile, task_id: str, now: datetime) -> ReadQuestions:
    """Read the file: one block, or a list of them. The first legal ones count, so many at most.

    What is not legal is left out and reported; the change stands without it all the same.
    """
    if file.instead:
        words = f"{BLOCKED_NAME} is {file.instead}: write the questions into a plain file"
        return ReadQuestions(refused=(RefusedQuestion(code=NOT_A_FILE, message=words),))
    if not file.content:
        return ReadQuestions()
    found: list[Blocked] = []
    refused: list[RefusedQuestion] = []
    try:
        for number, each in enumerate(_documents(file.content), 1):
            if number > _MOST_READ or len(found) == MOST_BLOCKED:
                words = f"question {number} and later: people are asked {MOST_BLOCKED} of a task at most"
                refused.append(RefusedQuestion(code=TOO_MANY, message=words))
                break
            try:
                found.append(_block(each, task_id, now))
            except GatewrightError as error:
                refused.append(_refused(error.reason, f"question {number}: {error.message}"))
    except MalformedError as error:
        refused.append(_refused(code=UNREADABLE, words=error.message))
    return ReadQuestions(tuple(found), tuple(refused))


def _refused(code: str, words: str) -> RefusedQuestion:
    line = "".join(each if each.isprintable() else "?" for each in " ".join(words.split()))
    return RefusedQuestion(code=code, message=line[:MOST_REFUSED_WORDS])


def _documents(content: bytes) -> Iterable[Any]:
    """What the file holds. Raises MalformedError."""
    if len(content) > _MOST_BYTES:
        raise MalformedError(f"{BLOCKED_NAME} has {len(content)} bytes; at most {_MOST_BYTES} are read")
    try:
        whole = strict_json.parse(content)
    except MalformedError as error:
        raise MalformedError(f"{BLOCKED_NAME} is no JSON: {error.message}") from None
    return whole if isinstance(whole, list) else [whole]


def _block(document: Any, task_id: str, now: datetime) -> Blocked:
    """Decode a question; its author and time are set here. Raises MalformedError."""
    fields = {**document, "session": task_id, "blocked_at": timestamp(now)} if isinstance(document, dict) else document
    block = codec.decode(msgspec.json.encode(fields), Blocked)
    refuse_illegal(block)
    return block
