"""File names outside of sentences: alone on a line, after a label, in quotes, in the info string of a fence. Pure.

Here they only become spans in backticks, as the rules of ``names.py`` read them, which decide whether they name the block.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from gatewright.errors import ExtractionError
from gatewright.patterns import TextPattern

#: Longer lines name no file.
_MAX_LINE = 300
_PATH = r"[\pL\pM\pN_.@+/-]+"
_NOTE = r"\((?:new|updated|modified|changed|full|complete|whole|created)(?:\s+(?:file|version|content|code))?\)"
#: ``src/a.py``, ``File: src/a.py (new)``, ``Path: src/a.py``.
_ALONE = TextPattern(
    rf"(?i)(?P<label>(?:file|file[ -]?name|file[ -]?path|path)(?:\s+[0-9]{{1,3}})?\s*:\s*)?"
    rf"(?P<path>{_PATH})(?P<note>\s*{_NOTE})?"
)
_QUOTED = TextPattern(rf'.*"(?P<path>{_PATH})".*')
_UNDERLINE = TextPattern(r"\s*(?:={3,}|-{3,})\s*")
_ATTRIBUTE = TextPattern(r"""(?:title|file|filename|path|name)=["']?(?P<path>[^"']+)["']?""")
_REFERENCE = TextPattern(r"[0-9]{1,7}:[0-9]{1,7}:.*")
#: Names of libraries that look like files; in a heading they are no names of files.
_LIBRARIES = frozenset(
    f"{name}.js"
    for name in ("node", "next", "nuxt", "vue", "react", "express", "three", "d3", "chart", "ember", "backbone", "nest")
)


def without_underline(words: Sequence[str]) -> Sequence[str]:
    """``words`` without the line of ``===`` or ``---`` that makes a heading of the one before it."""
    return words[:-1] if len(words) > 1 and _UNDERLINE.fullmatch(words[-1]) is not None else words


def with_span(line: str, *, plain: str) -> str:
    """``line`` with its name of a file in backticks, where it is one without; ``plain`` is the line without decoration."""
    if "`" in line or len(line) > _MAX_LINE:
        return plain
    bare = without_pictures(plain)
    alone = _ALONE.fullmatch(bare)
    if alone is not None and _may_be_file(alone["path"]):
        return f"`{alone['path']}`{alone.get('note') or ''}"
    quoted = _QUOTED.fullmatch(bare)
    if quoted is not None and _may_be_file(quoted["path"]):
        return bare.replace(f'"{quoted["path"]}"', f"`{quoted['path']}`")
    return plain


def language_of(info: str) -> str:
    """The language in an info string, in lower case; empty where there is none, or where a name stands in its place."""
    language = "".join(info.split(maxsplit=1)[:1]).partition(":")[0].lower()
    return "" if "/" in language or "." in language or "=" in language else language


def name_in(info: str) -> str | None:
    """The name of a file in an info string: ``python src/a.py``, ``python:src/a.py``, ``title="src/a.py"``, ``src/a.py``.

    Raises ExtractionError for a reference to lines of a file, which is a part of it.
    """
    words = info.split()
    if not words or len(info) > _MAX_LINE:
        return None
    if _REFERENCE.fullmatch(words[0]) is not None:
        raise ExtractionError(f"{info!r} refers to a part of a file; give the whole of it")
    language, colon, rest = words[0].partition(":")
    if colon and _may_be_file(rest):
        return rest
    for word in words:
        found = _ATTRIBUTE.fullmatch(word)
        if found is not None and _may_be_file(found["path"]):
            return found["path"]
    if len(words) == 2 and _may_be_file(words[1]):
        return words[1]
    return words[0] if len(words) == 1 and "/" in language and _may_be_file(words[0]) else None


def _may_be_file(path: str) -> bool:
    """Not every word with a dot: ``2.0`` and ``Node.js`` are none."""
    name = path.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    if "/" not in path and path.lower() in _LIBRARIES:
        return False
    return bool(dot) and extension[:1].isalpha() and (bool(stem) or bool(extension)) and not path.startswith("http")


def without_pictures(line: str) -> str:
    kept = line
    while kept and (unicodedata.category(kept[0]) in {"So", "Mn", "Cf"} or kept[0] == " "):
        kept = kept[1:]
    return kept
