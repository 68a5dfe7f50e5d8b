"""The names of files in the headers of a patch: their quotes, and the prefixes before them.

``git diff`` writes ``a/`` and ``b/`` before the names, other letters with ``diff.mnemonicPrefix``, and nothing with
``diff.noprefix``. The prefixes of a patch follow from a line with both names of a file: they differ in their prefixes only,
or not at all.
"""

from __future__ import annotations

import re
from typing import Final

from gatewright.git.patches.files import Prefixes

NULL: Final = b"/dev/null"
NO_PREFIXES: Final = Prefixes(b"", b"")
DEFAULT_PREFIXES: Final = Prefixes(b"a/", b"b/")
#: Those that git writes by itself (git-config, ``diff.mnemonicPrefix``); with ``-R`` the other way round.
_PAIRS = ((b"a/", b"b/"), (b"i/", b"w/"), (b"c/", b"i/"), (b"c/", b"w/"), (b"o/", b"w/"), (b"1/", b"2/"))
_KNOWN: Final = tuple(Prefixes(old, new) for first, second in _PAIRS for old, new in ((first, second), (second, first)))
#: A NUL, or a part of a path that is empty or leads nowhere.
_NO_PART: Final = re.compile(rb"\0|(?:\A|/)\.{0,2}(?:/|\Z)")  # noqa: TID251 - linear: of a bounded length
_STAMP: Final = re.compile(rb"[0-9A-Za-z ,:.+()\-]*")  # noqa: TID251 - linear: one class of characters
_ESCAPE = re.compile(rb"\\(?:([0-3][0-7]{2})|([abfnrtv\"\\]))")  # noqa: TID251 - linear: of a fixed length
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')  # noqa: TID251 - linear: each byte begins one way only


def unquote(name: bytes) -> bytes | None:
    """A whole name out of the quotes that git puts around odd ones; None where they are not git's."""
    if not name.startswith(b'"'):
        return name or None
    found = _QUOTED.fullmatch(name)
    if found is None or b"\\" in _ESCAPE.sub(b"", found[1]):
        return None
    return _ESCAPE.sub(_intended_name, found[1]) or None


def name_on_line(words: bytes) -> bytes | None:
    """Return the name behind ``--- `` or ``+++ ``, where a time may follow a tab. None for anything else."""
    if words.startswith(b'"'):
        name, tab, rest = words.partition(b'"\t')
        words = name + b'"' if tab else words
    else:
        words, _, rest = words.partition(b"\t")
    return unquote(words) if _STAMP.fullmatch(rest) else None


def common_prefixes(old: bytes, new: bytes) -> Prefixes | None:
    """The prefixes of two names of one file; None where they are not such, or have prefixes that git does not write."""
    if old == new:
        return NO_PREFIXES
    if old[2:] == new[2:]:
        return next((pair for pair in _KNOWN if (old[:2], new[:2]) == pair), None)
    return None


def split_names(words: bytes, moved: tuple[bytes, bytes] | None) -> tuple[Prefixes, bytes, bytes] | None:
    """Return the prefixes and the names, with prefixes, of the text behind ``diff --git ``.

    ``moved`` are the paths of a rename or a copy, which the lines below name without prefixes. None if the two names cannot
    be separated, belong to two files, or have prefixes that git does not write.
    """
    if b'"' in words:
        names = _quoted_names(words)
    elif moved is None:
        names = _equally_long(words)
    else:  # a name may have spaces: where the second one begins is known by what they are
        return next((found for pair in (NO_PREFIXES, *_KNOWN) if (found := _with(pair, moved, words))), None)
    if names is None:
        return None
    if moved is None:
        pair = common_prefixes(*names)
    else:
        pair = next((each for each in (NO_PREFIXES, *_KNOWN) if (each.old + moved[0], each.new + moved[1]) == names), None)
    return None if pair is None else (pair, *names)


def is_relative(path: bytes) -> bool:
    """Return whether a tree can hold the path, judged by its components."""
    return _NO_PART.search(path) is None


def _with(pair: Prefixes, moved: tuple[bytes, bytes], words: bytes) -> tuple[Prefixes, bytes, bytes] | None:
    old, new = pair.old + moved[0], pair.new + moved[1]
    return (pair, old, new) if words == old + b" " + new else None


def _equally_long(words: bytes) -> tuple[bytes, bytes] | None:
    """Two names of one file: all prefixes that git writes are equally long."""
    middle = len(words) // 2
    return (words[:middle], words[middle + 1 :]) if words[middle : middle + 1] == b" " else None


def _quoted_names(words: bytes) -> tuple[bytes, bytes] | None:
    """Two names of which one is in quotes, so that it is plain where the other begins."""
    if words.startswith(b'"'):
        found = _QUOTED.match(words)
        first, second = (found[0], words[found.end() :]) if found is not None else (b"", b"")
    else:
        first, quote, second = words.partition(b' "')
        second = b' "' + second if quote else b""
    if not second.startswith(b" "):
        return None
    old, new = unquote(first), unquote(second[1:])
    return None if old is None or new is None else (old, new)


def _intended_name(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)]) if found[1] else _LETTERS.get(found[2], found[2])
