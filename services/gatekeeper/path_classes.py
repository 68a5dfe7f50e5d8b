"""Which protected classes a path falls into, by gitignore patterns; told for ten thousand paths in a moment.

Nearly every path is in no class. What no pattern can match is told by one search in the directory, remembered, and one in the
name; only what is left is given to the patterns one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import pathspec

from gatewright.git.paths import folded_path

#: How a pattern without a slash begins as a regular expression: at any depth.
_ANYWHERE = "^(?:.+/)?"


class PathMatcher:
    """The classes of paths. ``patterns`` are those of each class, in order; names are compared as by ``folded``."""

    def __init__(self, patterns: Sequence[Iterable[str]]) -> None:
        self._specs = tuple(pathspec.GitIgnoreSpec.from_lines(each.casefold() for each in group) for group in patterns)
        found = [each.regex.pattern for spec in self._specs for each in spec.patterns if each.include and each.regex]
        self._any = _union(found)
        # A pattern that names its directories needs the whole path; for any other, the name alone tells.
        self._rooted = _union(each for each in found if not each.startswith(_ANYWHERE))
        self._name = _union("^" + each.removeprefix(_ANYWHERE) for each in found if each.startswith(_ANYWHERE))
        self._in_directory = lru_cache(maxsize=4096)(self._matches_directory)

    def of(self, path: bytes) -> tuple[int, ...]:
        """The numbers of the groups that ``path`` matches; bytes that are not UTF-8 match as is."""
        text = folded_path(path)
        directory, slash, name = text.rpartition("/")
        if self._name.match(name) is None and self._rooted.match(text) is None and not self._in_directory(directory + slash):
            return ()
        return tuple(number for number, spec in enumerate(self._specs) if spec.match_file(text))

    def _matches_directory(self, directory: str) -> bool:
        return self._any.match(directory) is not None


def _union(expressions: Iterable[str]) -> re.Pattern[str]:
    """Matches what one of ``expressions`` matches; nothing for none."""
    # Named groups of their own, of which one expression cannot hold two, become plain ones.
    parts = [f"(?:{re.sub(r'[(][?]P<[^>]+>', '(?:', each)})" for each in expressions]
    return re.compile("|".join(parts) or r"(?!)")
