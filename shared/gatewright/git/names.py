"""Limits for new names in a tree: short and shallow enough for any checkout, and readable as displayed.

Only names that a change adds are checked; names in the baseline are accepted. Used for patches, replies, commands and
contracts. Pure: no git runs here.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TOO_LONG = "path_too_long"
NAME_TOO_LONG = "name_too_long"
TOO_DEEP = "path_too_deep"
MANY_FILES = "too_many_files"
MANY_DIRECTORIES = "too_many_directories"
UNREADABLE = "name_unreadable"

#: Control, format, private use, surrogate, line and paragraph separator: what a reader cannot see can make one path look like
#: another. Unassigned ones are not here: which they are differs between Pythons.
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
#: Invisible letters and marks (Unicode, Default_Ignorable_Code_Point), and the Braille blank.
_BLANK = frozenset(
    map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0])
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))
#: They choose the display of the symbol before them; after anything else they are invisible.
_VARIATIONS = frozenset(map(chr, range(0xFE00, 0xFE10)))
_SYMBOLS = frozenset({"So", "Sm"})
#: Paths that are looked at in a moment.
_FEW = 200
_PLAIN = re.compile(rb"[ -\[\]-~]*")  # noqa: TID251 - linear: one class of characters


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """The largest that a change may bring in: bytes of a path and of one part of it, parts of a path, files, folders."""

    path_bytes: int = 1024
    name_bytes: int = 255
    depth: int = 100
    new_files: int = 20_000
    new_directories: int = 10_000


#: The largest limits of every role; policies may lower them. A larger tree takes minutes, and crashes git (which recurses
#: into folders) or the checkout of a developer who clones it.
LARGEST = TreeLimits()


class NameFault(NamedTuple):
    """Why names cannot be brought in; ``path`` is the first one at fault."""

    code: str
    words: str
    path: bytes


class Known:
    """The existing names of a baseline with ``files``."""

    def __init__(self, files: Iterable[bytes]) -> None:
        self.files = frozenset(files)
        self._ordered = sorted(self.files)

    def is_directory(self, path: bytes) -> bool:
        at = bisect_left(self._ordered, path + b"/")
        return at < len(self._ordered) and self._ordered[at].startswith(path + b"/")


def unreadable(text: str) -> str | None:
    """Why ``text`` (a path or a part of one) is not what a reader takes it for; None when it is."""
    before = ""
    for char in text:
        if char == "\\":
            return "has a backslash; parts are separated by /"
        if unicodedata.category(char) in _UNSEEN or char in _BLANK:
            return f"has a character that cannot be seen (U+{ord(char):04X})"
        if char in _VARIATIONS and (not before or unicodedata.category(before) not in _SYMBOLS):
            return f"has a character that cannot be seen (U+{ord(char):04X})"
        before = char
    return None


def unreadable_part(part: bytes) -> str | None:
    """The same for a name as a tree has it."""
    if _PLAIN.fullmatch(part):
        return None
    try:
        return unreadable(part.decode("utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8"


def path_limit_fault(path: bytes, limits: TreeLimits = LARGEST) -> NameFault | None:
    """Return the exceeded limit of one path."""
    if len(path) <= min(limits.name_bytes, limits.path_bytes) and path.count(b"/") < limits.depth:
        return None
    if len(path) > limits.path_bytes:
        return NameFault(TOO_LONG, f"a path of {len(path)} bytes where {limits.path_bytes} are allowed", path)
    parts = path.split(b"/")
    if len(parts) > limits.depth:
        return NameFault(TOO_DEEP, f"{len(parts) - 1} folders deep where {limits.depth - 1} are allowed", path)
    longest = max(map(len, parts))
    if longest <= limits.name_bytes:
        return None
    return NameFault(NAME_TOO_LONG, f"a name of {longest} bytes where {limits.name_bytes} are allowed", path)


def surely_within_limits(paths: Sequence[bytes], limits: TreeLimits = LARGEST) -> bool:
    """Return whether ``limit_faults`` would certainly find nothing, without reading the tree; for a few paths only."""
    return (
        len(paths) <= min(_FEW, limits.new_files)
        and all(path_limit_fault(path, limits) is None for path in paths)
        and len(directories(paths, limits)) <= limits.new_directories
    )


def surely_readable(paths: Sequence[bytes]) -> bool:
    """Return whether ``unreadable_faults`` would certainly find nothing; for a few paths only."""
    return len(paths) <= _FEW and all(_PLAIN.fullmatch(path) for path in paths)


def limit_faults(paths: Iterable[bytes], known: Callable[[], Known], limits: TreeLimits = LARGEST) -> Iterator[NameFault]:
    """Yield the exceeded limits of ``paths``, which a change names; ``known`` is called only if a limit may be exceeded."""
    named = list(dict.fromkeys(paths))
    for path in named:
        fault = path_limit_fault(path, limits)
        if fault is not None and path not in known().files:
            yield fault
    if len(named) > limits.new_files:
        new = [path for path in named if path not in known().files]
        if len(new) > limits.new_files:
            yield NameFault(MANY_FILES, f"{len(new)} new files where {limits.new_files} are allowed", new[limits.new_files])
    folders = directories(named, limits)
    if len(folders) > limits.new_directories:
        fresh = [folder for folder in folders if not known().is_directory(folder)]
        if len(fresh) > limits.new_directories:
            words = f"{len(fresh)} new folders where {limits.new_directories} are allowed"
            yield NameFault(MANY_DIRECTORIES, words, fresh[limits.new_directories])


def unreadable_faults(paths: Iterable[bytes], known: Callable[[], Known]) -> Iterator[NameFault]:
    """The new names in ``paths``, added ones, that are not what a reader takes them for: each once, one of a path."""
    reported: set[bytes] = set()
    for path in paths:
        if _PLAIN.fullmatch(path):
            continue
        parts = path.split(b"/")
        for depth, part in enumerate(parts, start=1):
            words = unreadable_part(part)
            if words is None:
                continue
            here = b"/".join(parts[:depth])
            if here in reported:
                continue
            reported.add(here)
            if depth == len(parts) or not known().is_directory(here):
                yield NameFault(UNREADABLE, words, path)
                break


def directories(paths: Iterable[bytes], limits: TreeLimits = LARGEST) -> list[bytes]:
    """Return the folders of ``paths``, except for paths too long or deep to split."""
    found: dict[bytes, None] = {}
    for path in paths:
        if path_limit_fault(path, limits) is not None:
            continue
        above = path.rpartition(b"/")[0]
        while above and above not in found:
            found[above] = None
            above = above.rpartition(b"/")[0]
    return list(found)
