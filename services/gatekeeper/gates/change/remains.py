"""Files that still exist without their former content: blanked, cut to a stub, left with a comment, overwritten.

An estimate in bytes and lines, for any language. It only has to distinguish the destruction of many files from the editing of
many. Linear in the contents, which are bounded.
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

#: Percentage of the old substance below which a file is lost in any case, and below which it is lost if no old line is left.
_LITTLE, _SOME = 10, 3
#: Size in bytes of a stub, where the file had more than twice as much.
_STUB = 4
#: Shorter lines (``}``, ``pass``) occur everywhere.
_MIN_LINE = 8
#: Number of files with one identical new content from which they are overwritten, however long it is.
_ALIKE = 20
#: Maximum number of new files with the same name that are searched for a moved file.
_MOST_PLACES = 8
_READ_AT_ONCE = 256 << 20
_COMMENT = re.compile(rb"^[ \t]*(?:#|//|/\*|\*|--|;|%|<!--|\"\"\"|''').*$", re.MULTILINE)  # noqa: TID251 - linear: each try is a line


async def destroyed_files(changes: Sequence[TreeChange], mirror: Mirror) -> frozenset[bytes]:
    """Return the paths among ``changes`` that are files before and after, and whose content is practically gone.

    Raises:
        GitError: the mirror cannot be read.
    """
    edited = [change for change in changes if change.old_id != change.new_id and {change.old_mode, change.new_mode} <= REGULAR]
    sizes = await mirror.sizes({each for change in edited for each in (change.old_id, change.new_id)})
    counts = Counter(change.new_id for change in edited)
    alike = frozenset(object_id for object_id, count in counts.items() if count > _ALIKE)
    # A file that shrinks by less than a tenth is edited; most changes end here, unread.
    smaller = [change for change in edited if change.new_id in alike or sizes[change.new_id] * 10 < sizes[change.old_id] * 9]
    wanted = {each for change in smaller for each in (change.old_id, change.new_id)}
    try:
        contents = await mirror.blobs(wanted, _READ_AT_ONCE) if wanted else {}
    except OutputTooLargeError:
        # Too much to read: decide by sizes alone.
        return frozenset(change.path for change in smaller if sizes[change.new_id] * _LITTLE <= sizes[change.old_id])
    return await asyncio.to_thread(_gone_contents, smaller, contents, alike)


async def moved_files(lost: Sequence[bytes], changes: Sequence[TreeChange], mirror: Mirror) -> frozenset[bytes]:
    """Return the ``lost`` paths whose edited content continues in a new file of the same name in another folder.

    Raises:
        GitError: the mirror cannot be read.
    """
    places: defaultdict[bytes, list[TreeChange]] = defaultdict(list)
    for change in changes:
        if change.old_mode not in REGULAR and change.new_mode in REGULAR:
            places[_base_name(change.path)].append(change)
    wanted = frozenset(lost)
    gone = [change for change in changes if change.path in wanted and _base_name(change.path) in places]
    ids = {change.old_id for change in gone}
    ids |= {place.new_id for change in gone for place in places[_base_name(change.path)][:_MOST_PLACES]}
    try:
        contents = await mirror.blobs(ids, _READ_AT_ONCE) if ids else {}
    except OutputTooLargeError:
        return frozenset()
    return await asyncio.to_thread(_moved_contents, gone, places, contents)


def _moved_contents(
    gone: Sequence[TreeChange], places: Mapping[bytes, Sequence[TreeChange]], contents: Mapping[str, bytes]
) -> frozenset[bytes]:
    lines = cache(lambda object_id: _comparable_lines(contents[object_id]))  # parsed once per content
    alike = cache(lambda old_id, new_id: 2 * len(lines(old_id) & lines(new_id)) >= len(lines(old_id)))
    taken: set[bytes] = set()
    moved: set[bytes] = set()
    for change in gone:
        for place in places[_base_name(change.path)][:_MOST_PLACES]:
            # One new file replaces one old file.
            if place.path not in taken and lines(change.old_id) and alike(change.old_id, place.new_id):
                taken.add(place.path)
                moved.add(change.path)
                break
    return frozenset(moved)


def _base_name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _gone_contents(smaller: Sequence[TreeChange], contents: Mapping[str, bytes], alike: frozenset[str]) -> frozenset[bytes]:
    """Return the ids of contents that are gone; each content is parsed once, however many files have it."""
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
    """Lazily computed measures of a content."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def substance(self) -> int:
        """Bytes without white space and comment lines, by the common comment marks."""
        return len(b"".join(_COMMENT.sub(b"", self._data).split()))

    @cached_property
    def written(self) -> int:
        """Bytes without white space."""
        return len(b"".join(self._data.split()))

    @cached_property
    def lines(self) -> frozenset[bytes]:
        """Significant lines, without comments."""
        return _comparable_lines(self._data)


def _is_destroyed(old: _Content, new: _Content, *, alike: bool) -> bool:
    """Return whether ``new`` keeps practically nothing of ``old``; ``alike``: many other files became ``new`` too."""
    before, after = old.substance, new.substance
    if not before:  # nothing but comments: judge these
        before, after = old.written, new.written
    if not before:
        return False
    if not after or after * _LITTLE <= before or (after <= _STUB and after * 2 < before):
        return True
    return bool(old.lines) and (alike or after * _SOME <= before) and old.lines.isdisjoint(new.lines)


def _comparable_lines(content: bytes) -> frozenset[bytes]:
    stripped = (line.strip() for line in _COMMENT.sub(b"", content).split(b"\n"))
    return frozenset(line for line in stripped if len(line) >= _MIN_LINE)
