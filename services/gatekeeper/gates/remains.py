"""Files that are still there and hold nothing of what they were: blanked, cut to a stub, left with a comment, overwritten.

An estimate in bytes and lines, for any language: it only has to tell the destruction of many files from the editing of many.
Linear in the contents, which are bounded.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from gatewright.git.changes import Change
from gatewright.git.mirror import Mirror
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
_FILES = frozenset({"100644", "100755"})
_COMMENT = re.compile(rb"^[ \t]*(?:#|//|/\*|\*|--|;|%|<!--|\"\"\"|''').*$", re.MULTILINE)  # noqa: TID251 - linear: each try is a line


async def destroyed_files(changes: Sequence[Change], mirror: Mirror) -> frozenset[bytes]:
    """The paths among ``changes`` that are files before and after, and whose content is as good as gone. Raises GitError."""
    edited = [change for change in changes if change.old_id != change.new_id and {change.old_mode, change.new_mode} <= _FILES]
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
    return await asyncio.to_thread(_gone, smaller, contents, alike)


async def moved_files(lost: Sequence[bytes], changes: Sequence[Change], mirror: Mirror) -> frozenset[bytes]:
    """Those of ``lost`` whose content, edited, lives on in a new file of the same name in another folder. Raises GitError."""
    places: defaultdict[bytes, list[Change]] = defaultdict(list)
    for change in changes:
        if change.old_mode not in _FILES and change.new_mode in _FILES:
            places[_name(change.path)].append(change)
    wanted = frozenset(lost)
    gone = [change for change in changes if change.path in wanted and _name(change.path) in places]
    ids = {change.old_id for change in gone}
    ids |= {place.new_id for change in gone for place in places[_name(change.path)][:_MOST_PLACES]}
    try:
        contents = await mirror.blobs(ids, _READ_AT_ONCE) if ids else {}
    except OutputTooLargeError:
        return frozenset()
    return await asyncio.to_thread(_moved, gone, places, contents)


def _moved(gone: Sequence[Change], places: Mapping[bytes, Sequence[Change]], contents: Mapping[str, bytes]) -> frozenset[bytes]:
    taken: set[bytes] = set()
    moved: set[bytes] = set()
    for change in gone:
        old = _lines(contents[change.old_id])
        for place in places[_name(change.path)][:_MOST_PLACES]:
            # One new file stands for one old file.
            if place.path not in taken and old and 2 * len(old & _lines(contents[place.new_id])) >= len(old):
                taken.add(place.path)
                moved.add(change.path)
                break
    return frozenset(moved)


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _gone(smaller: Sequence[Change], contents: Mapping[str, bytes], alike: frozenset[str]) -> frozenset[bytes]:
    return frozenset(
        change.path
        for change in smaller
        if is_destroyed(contents[change.old_id], contents[change.new_id], alike=change.new_id in alike)
    )


def is_destroyed(old: bytes, new: bytes, *, alike: bool = False) -> bool:
    """Whether ``new`` keeps next to nothing of ``old``; ``alike``: many other files have become ``new`` as well."""
    before, after = _substance(old), _substance(new)
    if not before:  # nothing but comments: they are what there is
        before, after = b"".join(old.split()), b"".join(new.split())
    if not before:
        return False
    if not after or len(after) * _LITTLE <= len(before) or (len(after) <= _STUB and len(after) * 2 < len(before)):
        return True
    telling = _lines(old)
    return bool(telling) and (alike or len(after) * _SOME <= len(before)) and telling.isdisjoint(_lines(new))


def _substance(content: bytes) -> bytes:
    """``content`` without white space and lines of comment, by the marks that comments begin with nearly everywhere."""
    return b"".join(_COMMENT.sub(b"", content).split())


def _lines(content: bytes) -> frozenset[bytes]:
    stripped = (line.strip() for line in _COMMENT.sub(b"", content).split(b"\n"))
    return frozenset(line for line in stripped if len(line) >= _TELLING_LINE)
