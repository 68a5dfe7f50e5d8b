"""Secrets that a change adds to a repository: in the new content of files, and in their names.

A value that was already in one of the changed files is not new: moving or removing a leaked key must stay possible.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, NO_CONTENT
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.scanner import Hit, SecretScanner

#: Maximum number of reported hits; one is enough to refuse a change.
_MOST = 200
_MOST_REMEMBERED = 100_000


class FoundSecret(NamedTuple):
    """A secret's place, by rule and line (from 1). ``path`` is None if the path itself contains it: it must not be shown."""

    rule: str
    path: bytes | None
    line: int


class CleanContents:
    """Ids of contents without findings, so that a content that two gates check is scanned once.

    It belongs to one scanner, and is cleared when it has grown large.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add(self, object_ids: Iterable[str]) -> None:
        if len(self._ids) > _MOST_REMEMBERED:
            self._ids.clear()
        self._ids.update(object_ids)

    def __contains__(self, object_id: str) -> bool:
        return object_id in self._ids


async def secrets_brought_in(
    changes: Sequence[TreeChange], mirror: Mirror, scanner: SecretScanner, clean: CleanContents | None = None
) -> tuple[FoundSecret, ...]:
    """Return the secrets that ``changes`` add, at most 200. Raises GitError, and the errors of ``SecretScanner.find``."""
    known = clean or CleanContents()
    written = [change for change in changes if change.new_mode not in NO_CONTENT and change.new_id != change.old_id]
    blobs = await mirror.blobs({change.new_id for change in written if change.new_id not in known})
    names = [change.path for change in changes if change.old_mode == ABSENT]
    in_names, hits = await asyncio.to_thread(_search_contents, names, blobs, scanner)
    if len(hits) < _MOST:
        known.add(object_id for object_id in blobs if object_id not in hits)
    if hits:
        old = await mirror.blobs({change.old_id for change in changes if change.old_mode not in NO_CONTENT})
        hits = await asyncio.to_thread(_new_ones, hits, blobs, old)
    found = [FoundSecret(hit.rule, None, 1) for hit in in_names]
    hidden = _holding(in_names, names)
    for change in written:
        if len(found) >= _MOST:
            break
        shown = None if change.path in hidden else change.path
        line, counted = 1, 0
        for hit in hits.get(change.new_id, ()):
            line, counted = line + blobs[change.new_id].count(b"\n", counted, hit.start), hit.start
            found.append(FoundSecret(hit.rule, shown, line))
    return tuple(found[:_MOST])


async def secrets_in_text(
    text: bytes, changes: Sequence[TreeChange], mirror: Mirror, scanner: SecretScanner
) -> tuple[tuple[str, int], ...]:
    """Return rule and line, from 1, of probable secrets in ``text``, from which ``changes`` were made; at most 200.

    A value that was already in one of the changed files is not reported. Raises the errors of ``secrets_brought_in``.
    """
    hits = await asyncio.to_thread(scanner.find, text)
    if not hits:
        return ()
    before = EarlierValues((await mirror.blobs({c.old_id for c in changes if c.old_mode not in NO_CONTENT})).values())
    new = [hit for hit in hits[:_MOST] if not before.held(text[hit.start : hit.end])]
    return tuple((hit.rule, text.count(b"\n", 0, hit.start) + 1) for hit in new)


Hits = Mapping[str, tuple[Hit, ...]]


def _search_contents(
    names: Sequence[bytes], blobs: Mapping[str, bytes], scanner: SecretScanner
) -> tuple[tuple[Hit, ...], Hits]:
    """Hits in the names, one a line, and in each blob that has any."""
    found: dict[str, tuple[Hit, ...]] = {}
    for object_id, content in blobs.items():
        hits = scanner.find(content)
        if hits:
            found[object_id] = hits
            if len(found) == _MOST:
                break
    return scanner.find(b"\n".join(names)), found


def _new_ones(hits: Hits, blobs: Mapping[str, bytes], old: Mapping[str, bytes]) -> Hits:
    before = EarlierValues(old.values())
    return {
        object_id: new[:_MOST]
        for object_id, some in hits.items()
        if (new := tuple(hit for hit in some if not before.held(blobs[object_id][hit.start : hit.end])))
    }


def _holding(hits: Sequence[Hit], names: Sequence[bytes]) -> frozenset[bytes]:
    """Return the ``names`` that contain one of the hits in the joined names."""
    starts = list(accumulate((len(name) + 1 for name in names), initial=0))
    return frozenset(names[bisect_right(starts, hit.start) - 1] for hit in hits)
