"""Colours for lines of code, by Pygments, within bounds: a hostile file must not cost more than an honest one.

The file's name alone determines the language, out of a short list; the content is never examined. Each side of a hunk is
coloured by itself, so that a string over several lines looks like one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from pygments.util import ClassNotFound

#: Part of a line and the class of its colour; empty for none.
Piece = tuple[str, str]

#: Lexers are regular expressions, and some of them take quadratic time or worse. So they get small pieces only, longer lines
#: stay plain, and after this many seconds all lines do.
MAX_PIECE = 3_000
MAX_LINE = 500
MAX_SECONDS = 4.0

_LANGUAGES: dict[str, tuple[str, ...]] = {
    "python": ("py", "pyi"),
    "javascript": ("js", "mjs", "cjs", "jsx"),
    "typescript": ("ts", "tsx", "mts"),
    "json": ("json", "webmanifest"),
    "yaml": ("yaml", "yml"),
    "toml": ("toml",),
    "ini": ("ini", "cfg", "conf", "editorconfig"),
    "markdown": ("md",),
    "rst": ("rst",),
    "html": ("html", "htm"),
    "xml": ("xml", "svg", "xsd"),
    "css": ("css", "scss"),
    "bash": ("sh", "bash"),
    "c": ("c", "h"),
    "cpp": ("cc", "cpp", "cxx", "hpp", "hh"),
    "csharp": ("cs",),
    "go": ("go",),
    "rust": ("rs",),
    "java": ("java",),
    "kotlin": ("kt", "kts"),
    "swift": ("swift",),
    "ruby": ("rb",),
    "php": ("php",),
    "sql": ("sql",),
    "lua": ("lua",),
}
_BY_ENDING = {ending: language for language, endings in _LANGUAGES.items() for ending in endings}
_BY_NAME = {"Makefile": "make", "Dockerfile": "docker", "CMakeLists.txt": "cmake"}
_CLASSES = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "d"),
    (Name.Tag, "k"),
    (Name.Attribute, "f"),
    (Name.Builtin, "b"),
)


def language_of(path: bytes) -> str:
    """The language of a file by its name; empty for none that is coloured."""
    name = path.rpartition(b"/")[2].decode("utf-8", "replace")
    _, dot, ending = name.rpartition(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(ending.lower(), "") if dot else "")


@dataclass
class Colours:
    """Colours lines until ``seconds`` are used up; one for a page. ``clock`` gives seconds from an arbitrary start."""

    seconds: float = MAX_SECONDS
    clock: Callable[[], float] = time.perf_counter

    def lines(self, lines: Sequence[str], language: str) -> list[list[Piece]]:
        """The lines in pieces with their classes; one plain piece a line where there is no language, or no time left."""
        lexer = _lexer(language) if language else None
        made: list[list[Piece]] = []
        for group in _groups(lines) if lexer is not None else ():
            begun = self.clock()
            made += _colour_lines(group, lexer) if self.seconds > 0 else _plain_pieces(group)
            self.seconds -= self.clock() - begun
        return made if lexer is not None else _plain_pieces(lines)


def _groups(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines in small enough groups; a line that is too long is a group of its own."""
    group: list[str] = []
    size = 0
    for line in lines:
        alone = len(line) > MAX_LINE
        if group and (alone or size + len(line) > MAX_PIECE):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line) + 1
        if alone:
            yield group
            group, size = [], 0
    if group:
        yield group


def _plain_pieces(lines: Sequence[str]) -> list[list[Piece]]:
    return [[(line, "")] for line in lines]


def _colour_lines(lines: list[str], lexer: Any) -> list[list[Piece]]:
    if any(len(line) > MAX_LINE for line in lines):
        return _plain_pieces(lines)
    made: list[list[Piece]] = [[]]
    for kind, value in lexer.get_tokens("\n".join(lines)):
        name = _class(kind)
        first, *rest = value.split("\n")
        if first:
            made[-1].append((first, name))
        made.extend([(part, name)] if part else [] for part in rest)
    joined = ["".join(text for text, _ in pieces) for pieces in made[: len(lines)]]
    # A lexer that swallows or changes a character would show another text than the patch holds.
    return made[: len(lines)] if joined == lines else _plain_pieces(lines)


@cache
def _lexer(language: str) -> Any:
    """The library's lexer, which is not typed; None where this version has none."""
    try:
        return get_lexer_by_name(language, stripnl=False, stripall=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _class(kind: object) -> str:
    return next((name for family, name in _CLASSES if kind in family), "")
