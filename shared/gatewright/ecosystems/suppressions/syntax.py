"""The syntax of comments and strings by language, as far as needed to separate them. Pure, linear; the input is hostile.

This is no parser: if a string is unterminated, the whole file is both code and comments, so that nothing can hide in it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from gatewright.patterns import BytesPattern

#: Turns every byte except line ends into a blank.
_BLANK: Final = bytes(each if each == 0x0A else 0x20 for each in range(256))
_TRIPLE: Final = (
    rb'"""(?:[^"\\]|\\(?s:.)|"{1,2}(?:[^"\\]|\\(?s:.)))*(?:"""|"{0,2}\z)',
    rb"'''(?:[^'\\]|\\(?s:.)|'{1,2}(?:[^'\\]|\\(?s:.)))*(?:'''|'{0,2}\z)",
)
_DOUBLE: Final = rb'"(?:[^"\\\n]|\\[^\n])*"'
_SINGLE: Final = rb"'(?:[^'\\\n]|\\[^\n])*'"
#: A character of C and its heirs; not the mark of a lifetime, nor one between digits.
_CHARACTER: Final = rb"'(?:[^'\\\n]{1,4}|\\[^\n]{1,9})'"
_BACKTICKS: Final = rb"`(?:[^`\\]|\\(?s:.))*(?:`|\z)"
_RAW_BACKTICKS: Final = rb"`[^`]*(?:`|\z)"
#: A regular expression of JavaScript, at a valid position: a quote in it opens no string.
_REGEX: Final = (
    rb"(?:[=(,:\[!&|?{};]|=>|\breturn)[ \t]*/(?:[^/*\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])"
    rb"(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])*/"
)
#: Delimiters of multi-line strings.
_MARKS: Final = (b'"""', b"'''", b"`")

SLASHES: Final = rb"//[^\n]*"
STARS: Final = rb"/\*(?:[^*]|\*+[^*/])*(?:\*+/|\**\z)"
HASH: Final = rb"#[^\n]*"
#: For languages in which ``#`` may also be inside a word.
SPACED_HASH: Final = rb"(?m:^|[ \t;&|(])#[^\n]*"
DASHES: Final = rb"--[^\n]*"
SEMICOLONS: Final = rb";[^\n]*"
PERCENT: Final = rb"%[^\n]*"
MARKUP: Final = rb"<!--(?:[^-]|-[^-]|--+[^->])*(?:--+>|-*\z)"
BRACES: Final = rb"\{-(?:[^-]|-+[^-}])*(?:-+\}|-*\z)"
PARENTHESES: Final = rb"\(\*(?:[^*]|\*+[^*)])*(?:\*+\)|\**\z)"
TEMPLATES: Final = rb"\{#(?:[^#]|#+[^#}])*(?:#+\}|#*\z)"


class Syntax(NamedTuple):
    """Patterns of comments, and of strings; without strings, a comment is found in them too."""

    comments: tuple[bytes, ...]
    strings: tuple[bytes, ...] = ()


C_LIKE: Final = Syntax((SLASHES, STARS), (*_TRIPLE[:1], _DOUBLE, _CHARACTER))
C: Final = Syntax((SLASHES, STARS), (_DOUBLE, _CHARACTER))
GO: Final = Syntax((SLASHES, STARS), (_DOUBLE, _CHARACTER, _RAW_BACKTICKS))
SCRIPT: Final = Syntax((SLASHES, STARS), (_REGEX, _DOUBLE, _SINGLE, _BACKTICKS))
DART: Final = Syntax((SLASHES, STARS), (*_TRIPLE, _DOUBLE, _SINGLE))
PYTHON: Final = Syntax((HASH,), (*_TRIPLE, _DOUBLE, _SINGLE))
HASHED: Final = Syntax((SPACED_HASH,), (_DOUBLE, _SINGLE))
#: Files in which an apostrophe is often no quote.
PLAIN_HASHED: Final = Syntax((SPACED_HASH,))
HCL: Final = Syntax((SPACED_HASH, SLASHES, STARS), (_DOUBLE,))
DASHED: Final = Syntax((DASHES, STARS), (_DOUBLE, _SINGLE))
HASKELL: Final = Syntax((DASHES, BRACES), (_DOUBLE,))
LISP: Final = Syntax((SEMICOLONS,), (_DOUBLE,))
ERLANG: Final = Syntax((PERCENT,), (_DOUBLE,))
OCAML: Final = Syntax((PARENTHESES,), (_DOUBLE,))
STYLES: Final = Syntax((STARS, SLASHES), (_DOUBLE, _SINGLE))
MARKED: Final = Syntax((MARKUP, TEMPLATES))
#: Markup with scripts and styles in it; text between tags has apostrophes.
MIXED: Final = Syntax((MARKUP, TEMPLATES, STARS, rb"(?m:^|[ \t;{}])//[^\n]*"))
PHP: Final = Syntax((SLASHES, STARS, SPACED_HASH, MARKUP), (_DOUBLE, _SINGLE))
ANY: Final = Syntax((SPACED_HASH, SLASHES, STARS, DASHES))


class Split(NamedTuple):
    """Three texts as long as the content, with blanks in the place of the rest: ``code`` has no strings, ``rest`` has them."""

    comments: bytes
    code: bytes
    rest: bytes


def split(content: bytes, syntax: Syntax) -> Split:
    """Split ``content`` into comments and code."""
    blank = content.translate(_BLANK)
    comments, code, rest = bytearray(blank), bytearray(content), bytearray(content)
    for group, start, end in _tokens(syntax).spans(content):
        code[start:end] = blank[start:end]
        if group == 1:
            comments[start:end] = content[start:end]
            rest[start:end] = blank[start:end]
        elif end == len(content) and _is_open(content[start:end]):
            return split(content, Syntax(syntax.comments))
    return Split(bytes(comments), bytes(code), bytes(rest))


def _is_open(string: bytes) -> bool:
    mark = next((each for each in _MARKS if string.startswith(each)), b"")
    return bool(mark) and (len(string) < 2 * len(mark) or not string.endswith(mark))


@cache
def _tokens(syntax: Syntax) -> BytesPattern:
    comments, strings = b"|".join(syntax.comments), b"|".join(syntax.strings)
    return BytesPattern(b"(" + comments + b")" + (b"|(" + strings + b")" if strings else b""))
