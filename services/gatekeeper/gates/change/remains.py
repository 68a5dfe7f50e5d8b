"""Files that are still there and hold nothing of what they were: blanked, cut to a stub, left with a comment, overwritten.

An estimate in bytes and lines, for any language: it only has to tell the destruction of many files from the editing of many.
Linear in the contents, which are bounded.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import groupby
from operator import itemgetter

from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR
from gatewright.git.process import OutputTooLargeError

#: Of the old substance, what is left of a file that is lost in any case, and of one in which no old line is left.
_LITTLE, _SOME = 10, 3
#: Bytes that are next to nothing, where there was more than twice as much.
_STUB = 4
#: Shorter lines (``}``, ``pass``) are alike everywhere.
_TELLING_LINE = 8
#: So many files that get one and the same content are overwritten, however long it is.
_ALIKE = 20
#: New files of one name among which the one is looked for that an old file has become.
_MOST_PLACES = 8
_READ_AT_ONCE = 256 << 20
_COMMENT = re.compile(rb"^[ \t]*(?:#|//|/\*|\*|--|;|%|<!--|\"\"\"|''').*$", re.MULTILINE)  # noqa: TID251 - linear: each try is a line


async def destroyed_files(changes: Sequence[TreeChange], mirror: Mirror) -> frozenset[bytes]:
    """The paths among ``changes`` that are files before and after, and whose content is as good as gone. Raises GitError."""
    edited = [change for change in changes if change.old_id != change.new_id and {change.old_mode, change.new_mode} <= REGULAR]
    sizes = await mirror.sizes({each for change in edited for each in (change.old_id, change.new_id)})
    counts = Counter(change.new_id for change in edited)
    alike = frozenset(object_id for object_id, count in counts.items() if count > _ALIKE)
    # What shrinks by less than a tenth is edited; most changes end here, unread.
    smaller = [change for change in edited if change.new_id in alike or sizes[change.new_id] * 10 < sizes[change.old_id] * 9]
    wanted = {each for change in smaller for each in (change.old_id, change.new_id)}
    try:
        contents = await mirror.blobs(wanted, _READ_AT_ONCE) if wanted else {}
    except OutputTooLargeError:
        # Too much to look into: the sizes alone decide.
        return frozenset(change.path for change in smaller if sizes[change.new_id] * _LITTLE <= sizes[change.old_id])
    return await asyncio.to_thread(_gone_contents, smaller, contents, alike)


async def moved_files(lost: Sequence[bytes], changes: Sequence[TreeChange], mirror: Mirror) -> frozenset[bytes]:
    """Those of ``lost`` whose content, edited, lives on in a new file of the same name in another folder. Raises GitError."""
    places: defaultdict[bytes, list[TreeChange]] = defaultdict(list)
    for change in changes:
        if change.old_mode not in REGULAR and change.new_mode in REGULAR:
            places[_name(change.path)].append(change)
    wanted = frozenset(lost)
    gone = [change for change in changes if change.path in wanted and _name(change.path) in places]
    ids = {change.old_id for change in gone}
    ids |= {place.new_id for change in gone for place in places[_name(change.path)][:_MOST_PLACES]}
    try:
        contents = await mirror.blobs(ids, _READ_AT_ONCE) if ids else {}
    except OutputTooLargeError:
        return frozenset()
    return await asyncio.to_thread(_moved_contents, gone, places, contents)


def _moved_contents(
    gone: Sequence[TreeChange], places: Mapping[bytes, Sequence[TreeChange]], contents: Mapping[str, bytes]
) -> frozenset[bytes]:
    lines = cache(lambda object_id: _lines(contents[object_id]))  # of one content, however many files have it
    alike = cache(lambda old_id, new_id: 2 * len(lines(old_id) & lines(new_id)) >= len(lines(old_id)))
    taken: set[bytes] = set()
    moved: set[bytes] = set()
    for change in gone:
        for place in places[_name(change.path)][:_MOST_PLACES]:
            # One new file stands for one old file.
            if place.path not in taken and lines(change.old_id) and alike(change.old_id, place.new_id):
                taken.add(place.path)
                moved.add(change.path)
                break
    return frozenset(moved)


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _gone_contents(smaller: Sequence[TreeChange], contents: Mapping[str, bytes], alike: frozenset[str]) -> frozenset[bytes]:
    """Each content is taken apart once, however many files had it or have become it."""
    pairs = {(change.old_id, change.new_id) for change in smaller}
    uses = Counter(new_id for _, new_id in pairs)
    shared = {new_id: _Content(contents[new_id]) for new_id, count in uses.items() if count > 1}
    destroyed: set[tuple[str, str]] = set()
    for old_id, some in groupby(sorted(pairs), key=itemgetter(0)):
        before = _Content(contents[old_id])
        for pair in some:
            after = shared.get(pair[1]) or _Content(contents[pair[1]])
            if _is_destroyed(before, after, alike=pair[1] in alike):
                destroyed.add(pair)
    return frozenset(change.path for change in smaller if (change.old_id, change.new_id) in destroyed)


class _Content:
    """What is counted of a content: each number and the lines are found when they are asked for, and kept."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def substance(self) -> int:
        """Bytes without white space and lines of comment, by the marks that comments begin with nearly everywhere."""
        return len(b"".join(_COMMENT.sub(b"", self._data).split()))

    @cached_property
    def written(self) -> int:
        """Bytes without white space."""
        return len(b"".join(self._data.split()))

    @cached_property
    def lines(self) -> frozenset[bytes]:
        """Lines that tell something, without comments."""
        return _lines(self._data)


def _is_destroyed(old: _Content, new: _Content, *, alike: bool) -> bool:
    """Whether ``new`` keeps next to nothing of ``old``; ``alike``: many other files have become ``new`` as well."""
    before, after = old.substance, new.substance
    if not before:  # nothing but comments: they are what there is
        before, after = old.written, new.written
    if not before:
        return False
    if not after or after * _LITTLE <= before or (after <= _STUB and after * 2 < before):
        return True
    return bool(old.lines) and (alike or after * _SOME <= before) and old.lines.isdisjoint(new.lines)


def _lines(content: bytes) -> frozenset[bytes]:
    stripped = (line.strip() for line in _COMMENT.sub(b"", content).split(b"\n"))
    return frozenset(line for line in stripped if len(line) >= _TELLING_LINE)
