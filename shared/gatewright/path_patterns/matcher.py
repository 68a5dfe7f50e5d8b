"""The protected classes of a path, by gitignore patterns; fast for ten thousand paths.

Nearly every path is in no class. One cached search in the directory and one in the name exclude them; only the remaining
paths are matched against single patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn, cast

import pathspec
from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from gatewright.errors import MalformedError
from gatewright.git.paths import folded_path
from gatewright.patterns import PatternError, TextPattern, is_pattern

#: The beginning of a regular expression for a pattern without a slash: at any depth.
_ANYWHERE = "^(?:.+/)?"
_STRANGE = "\ufffd"
_NAMED_GROUP = re.compile(r"[(][?]P<[^>]+>")  # noqa: TID251 - policy files are the operator's own


class _Expression(NamedTuple):
    """A regular expression that only RE2 compiles. Compiling hundreds of them with ``re`` as well takes a tenth of a second."""

    pattern: str

    def match(self, _text: str) -> NoReturn:
        """Pathspec takes what has this method for a compiled pattern; its RE2 backend never calls it."""
        raise NotImplementedError


class _Translated(NamedTuple):
    """A pattern as a regular expression. ``regex`` and ``include`` are None for a blank line and a comment."""

    pattern: str
    regex: str | None
    include: bool | None

    @classmethod
    def of(cls, pattern: str) -> _Translated:
        return cls(pattern, *GitIgnoreSpecPattern.pattern_to_regex(pattern))

    def compiled(self) -> GitIgnoreSpecPattern:
        expression = None if self.regex is None else cast("re.Pattern[str]", _Expression(self.regex))
        return GitIgnoreSpecPattern(expression, self.include)


def translate_line(line: str) -> GitIgnoreSpecPattern | None:
    """Return one line of a gitignore for the RE2 backend of pathspec; None for no valid pattern."""
    try:
        found = _Translated.of(line)
    except GitIgnorePatternError:
        return None
    return found.compiled() if found.regex is not None and is_pattern(found.regex) else None


@lru_cache(maxsize=8)
def path_matcher(patterns: tuple[tuple[str, ...], ...]) -> PathMatcher:
    """The matcher of ``patterns``, made once for policies that are read again."""
    return PathMatcher(patterns)


class PathMatcher:
    """The classes of paths. ``patterns`` are those of each class, in order; names are compared as by ``folded``."""

    def __init__(self, patterns: Sequence[Iterable[str]]) -> None:
        """Raises MalformedError for patterns that are none, or that are too large together."""
        try:
            self._compile(patterns)
        except (ValueError, PatternError) as error:
            raise MalformedError(f"the patterns of paths cannot be used: {str(error)[:200]}") from error

    def _compile(self, patterns: Sequence[Iterable[str]]) -> None:
        groups = [[_Translated.of(each.casefold()) for each in group] for group in patterns]
        # Pathspec's default engine backtracks: a path of many parts would take a power of their number.
        self._specs = tuple(pathspec.GitIgnoreSpec([each.compiled() for each in group], backend="re2") for group in groups)
        found = [(each.pattern, each.regex) for group in groups for each in group if each.include and each.regex]
        self._any = _union(regex for _, regex in found)
        # A pattern with directories needs the whole path, even ``**/a/b``; for others, the name suffices.
        self._rooted = _union(regex for pattern, regex in found if not _is_one_name(pattern))
        self._name = _union("^" + regex.removeprefix(_ANYWHERE) for pattern, regex in found if _is_one_name(pattern))
        self._in_directory = lru_cache(maxsize=4096)(self._matches_directory)

    def of(self, path: bytes) -> tuple[int, ...]:
        """The numbers of the groups that ``path`` matches; what is not UTF-8, or ends a line, is a character like another."""
        text = folded_path(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", _STRANGE)
        directory, slash, name = text.rpartition("/")
        if not (self._name.begins(name) or self._rooted.begins(text) or self._in_directory(directory + slash)):
            return ()
        return tuple(number for number, spec in enumerate(self._specs) if spec.match_file(text))

    def _matches_directory(self, directory: str) -> bool:
        return self._any.begins(directory)


def _is_one_name(pattern: str) -> bool:
    """Return whether ``pattern`` of a gitignore names one file or directory, at any depth."""
    return "/" not in pattern.rstrip("/")


def _union(expressions: Iterable[str]) -> TextPattern:
    """Return a pattern that matches if one of ``expressions`` does; without any, it matches nothing."""
    # Named groups, which may not repeat in one expression, become plain ones.
    parts = [f"(?:{_NAMED_GROUP.sub('(?:', each)})" for each in expressions]
    return TextPattern("|".join(parts) or r"[^\x00-\x{10FFFF}]")
