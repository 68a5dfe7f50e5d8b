"""Old and new contents of changed files, read in batches of limited size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple

from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR

#: Maximum bytes of old and new contents per batch.
_AT_ONCE: Final = 64 << 20


class FilePair(NamedTuple):
    """A changed file: the ids of its old and new contents. An id is empty where there is no file."""

    path: bytes
    old_id: str
    new_id: str


def file_pairs(changes: Sequence[TreeChange]) -> list[FilePair]:
    """Return the changes that add, remove or rewrite the content of a path."""
    pairs = [
        FilePair(
            change.path,
            change.old_id if change.old_mode in REGULAR else "",
            change.new_id if change.new_mode in REGULAR else "",
        )
        for change in changes
    ]
    return [pair for pair in pairs if pair.old_id != pair.new_id]


async def in_portions(pairs: Sequence[FilePair], mirror: Mirror) -> AsyncIterator[tuple[list[FilePair], Mapping[str, bytes]]]:
    """Yield ``pairs`` in batches of limited size, with their contents by id.

    Raises:
        GitError: the mirror cannot be read.
    """
    sizes = await mirror.sizes({each for pair in pairs for each in (pair.old_id, pair.new_id) if each})
    some: list[FilePair] = []
    held = 0
    for pair in [*pairs, None]:
        size = sum(sizes[each] for each in (pair.old_id, pair.new_id) if each) if pair is not None else 0
        if some and (pair is None or held + size > _AT_ONCE):
            yield some, await mirror.blobs({each for one in some for each in (one.old_id, one.new_id) if each})
            some, held = [], 0
        if pair is not None:
            some.append(pair)
            held += size
