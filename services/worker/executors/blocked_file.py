"""The file by which a command, an agent or a model says what it could not tell: taken out of the change, and read as data.

Where the repository has a file of that name itself, it is a file like any other, and nothing can be asked by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from gatewright.clock import timestamp
from gatewright.contracts import Blocked, TaskContract, codec, strict_json
from gatewright.contracts.consultation import MOST_BLOCKED
from gatewright.errors import GatewrightError, MalformedError
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror
from gatewright.rules.blocked.legal import BLOCKED_NAME, refuse_illegal

BLOCKED_FILE = BLOCKED_NAME.encode()
#: Of the artifacts: what of the file was no block, and why.
REFUSED_LOG = "blocked_refused"
_MOST_BYTES = 64 * 1024
#: Documents of one file that are looked at, and lines about those that are none.
_MOST_READ = 100


@dataclass(frozen=True, slots=True)
class ToldBlocks:
    """What the file says, and what of it was refused, in lines."""

    blocked: tuple[Blocked, ...] = ()
    refused: bytes = b""


async def may_ask(contract: TaskContract, mirror: Mirror, baseline: str) -> bool:
    """Whether people are asked what a task of this contract writes into the file. Raises GitError."""
    return contract.questions is not None and not await is_tracked(mirror, baseline)


async def is_tracked(mirror: Mirror, baseline: str) -> bool:
    """Whether the name is taken by a file, or a folder, of the repository. Raises GitError."""
    return bool(await mirror.files(baseline, (BLOCKED_NAME,)))


async def take_blocked(changes: Sequence[FileChange], mirror: Mirror, baseline: str) -> tuple[tuple[FileChange, ...], bytes]:
    """The same as ``without_blocked``; all of the changes where the file is one of the repository's. Raises GitError."""
    kept, content = without_blocked(changes)
    if len(kept) != len(changes) and await is_tracked(mirror, baseline):
        return tuple(changes), b""
    return kept, content


def without_blocked(changes: Sequence[FileChange]) -> tuple[tuple[FileChange, ...], bytes]:
    """The changes without the file, and its bytes; none where it is not there, or is no plain file."""
    contents = (each.content for each in changes if each.path == BLOCKED_FILE and each.mode in {"100644", "100755"})
    return tuple(each for each in changes if each.path != BLOCKED_FILE), next(contents, b"")


def read_blocked(content: bytes, task_id: str, now: datetime) -> ToldBlocks:
    """Read the file: one block, or a list of them. The first legal ones count, so many at most.

    What is not legal is left out and told; the change stands without it all the same.
    """
    if not content:
        return ToldBlocks()
    found: list[Blocked] = []
    refused: list[str] = []
    for number, each in enumerate(_documents(content, refused), 1):
        if number > _MOST_READ or len(found) == MOST_BLOCKED:
            refused.append(f"{number} and later: no more than {MOST_BLOCKED} are asked")
            break
        try:
            found.append(_block(each, task_id, now))
        except GatewrightError as error:
            refused.append(f"{number}: {error.reason}: {error.message}")
    return ToldBlocks(tuple(found), "".join(f"{line}\n" for line in refused).encode("utf-8", "replace"))


def _documents(content: bytes, refused: list[str]) -> Iterable[Any]:
    if len(content) > _MOST_BYTES:
        refused.append(f"the file has {len(content)} bytes, and {_MOST_BYTES} are read")
        return ()
    try:
        whole = strict_json.parse(content)
    except MalformedError as error:
        refused.append(f"the file is no JSON: {error.message}")
        return ()
    return whole if isinstance(whole, list) else [whole]


def _block(document: Any, task_id: str, now: datetime) -> Blocked:
    """Who asks, and since when, is not for the document to say. Raises MalformedError."""
    said = {**document, "session": task_id, "blocked_at": timestamp(now)} if isinstance(document, dict) else document
    block = codec.decode(msgspec.json.encode(said), Blocked)
    refuse_illegal(block)
    return block
