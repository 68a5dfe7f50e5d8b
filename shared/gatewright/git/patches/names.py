"""The paths that the headers of a patch name, read without git: cheap enough to refuse a monstrous patch before git meets it.

It decides nothing alone: what it overlooks is found in the tree that the patch leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: No smaller patch without long lines leads beyond the limits of ``names.py``.
SMALL = 16 << 10
_LONG = 200
#: A line of a hunk begins with a blank, ``+``, ``-`` or a backslash; ``---`` and ``+++`` are headers only before a hunk.
_HEADERS = re.compile(rb"\n(?:diff --git ([^\n]+)|(?:rename|copy) to ([^\n]+)|--- [^\n]*\n\+\+\+ ([^\n]+)(?=\n@@ -))")  # noqa: TID251 - it looks ahead; linear: a line's end ends each try
_LONG_HEADER = re.compile(rb"\n(?:diff --git |rename to |copy to |\+\+\+ )[^\n]{%d}" % _LONG)  # noqa: TID251 - linear: of a fixed length
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)  # noqa: TID251 - linear: of a fixed length
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def is_harmless(patch: bytes) -> bool:
    """Whether ``patch`` is too small to name what is too large."""
    return len(patch) <= SMALL and _LONG_HEADER.search(b"\n" + patch) is None


def named_paths(patch: bytes) -> Iterator[bytes]:
    """The paths of ``patch`` after the change (before it, where the file is deleted), once for each header that names them."""
    for both, moved, written in _HEADERS.findall(b"\n" + patch):
        if both:
            path = _of_two(both)
            if path:
                yield path
        elif moved:
            yield _plain(moved)
        elif written != b"/dev/null":
            yield _below_prefix(_plain(written.partition(b"\t")[0]))


def _of_two(names: bytes) -> bytes:
    """Of ``a/PATH b/PATH`` the path; empty where the two are not the same, which other headers name then."""
    middle = len(names) // 2
    first, second = names[:middle], names[middle + 1 :]
    if len(first) != len(second) or _below_prefix(_plain(first)) != _below_prefix(_plain(second)):
        return b""
    return _below_prefix(_plain(second))


def _below_prefix(name: bytes) -> bytes:
    return name.partition(b"/")[2] or name


def _plain(name: bytes) -> bytes:
    """A name out of the quotes that git puts around odd ones."""
    name = name.rstrip(b"\r")
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    return _ESCAPE.sub(_meant, name[1:-1])


def _meant(found: re.Match[bytes]) -> bytes:
    said = found[1]
    return bytes([int(said, 8) & 0xFF]) if len(said) == 3 else _LETTERS.get(said, said)
