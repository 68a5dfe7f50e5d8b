"""Files that a repository's own ``.gitignore`` files ignore, judged without git, in time linear in the path.

The rules of git apply: a deeper file overrides one above it, the last matching pattern decides, and nothing below an
ignored folder is included again. Names are compared byte by byte, as in git. A path that cannot be judged is not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final

import pathspec

from gatewright.git import names
from gatewright.path_patterns.matcher import translate_line
from gatewright.patterns import PatternError

NAME: Final = b".gitignore"
#: Bounds of what is read of one repository: files of rules, bytes of all of them, and lines of one.
MOST_FILES: Final = 200
MOST_BYTES: Final = 1 << 20
_MOST_LINES: Final = 5_000
#: Parts of a path that is judged at all.
_MOST_PARTS: Final = 100
_MARK: Final = b"\xef\xbb\xbf"


class IgnoreRules:
    """``files`` are the contents of ``.gitignore`` files by folder (``b""`` for the root)."""

    def __init__(self, files: Mapping[bytes, bytes]) -> None:
        self._files = files
        self._spec = cache(self._compile)
        self._folder = lru_cache(maxsize=4096)(self._is_ignored_folder)

    def ignore(self, path: bytes) -> bool:
        """Return whether the file at ``path`` is ignored, by a rule for itself or for a folder above it."""
        if path.count(b"/") > _MOST_PARTS or not _is_readable(path):
            return False
        return self._folder(path.rpartition(b"/")[0]) or self._verdict(path, folder=False)

    def _is_ignored_folder(self, folder: bytes) -> bool:
        if not folder:
            return False
        return self._folder(folder.rpartition(b"/")[0]) or self._verdict(folder, folder=True)

    def _verdict(self, path: bytes, *, folder: bool) -> bool:
        """Return the verdict of the deepest rule that matches ``path`` itself."""
        above = path
        while above:
            above = above.rpartition(b"/")[0]
            spec = self._spec(above)
            if spec is None:
                continue
            below = path[len(above) + 1 :] if above else path
            found = spec.check_file(below.decode("latin-1") + ("/" if folder else "")).include
            if found is not None:
                return found
        return False

    def _compile(self, folder: bytes) -> pathspec.GitIgnoreSpec | None:
        content = self._files.get(folder)
        if content is None:
            return None
        lines = content.removeprefix(_MARK).split(b"\n")[:_MOST_LINES]
        found = [translate_line(line.removesuffix(b"\r").decode("latin-1")) for line in lines]
        # Git, too, passes over a line that is no pattern. Pathspec's default engine backtracks.
        try:
            return pathspec.GitIgnoreSpec([each for each in found if each is not None], backend="re2")
        except (ValueError, PatternError):
            return None  # too large to be judged


def _is_readable(path: bytes) -> bool:
    try:
        return names.unreadable(path.decode()) is None
    except UnicodeDecodeError:
        return False
