"""Two tests in the style of a Python suite, unrecognisable by name: words, place and values are random."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

_TEXT: Final = (
    "bounds cache chunk column cursor decode defaults delta digest encode entries escape field filter flush format frame"
    " header index input lookup merge nested offset order padding parse path prefix range record render reset resolve round"
    " scan schema shape size slice sort span split state stream suffix table token trim unit update value window wrap"
)
_WORDS: Final = tuple(_TEXT.split())
#: Folders whose tests are often input of other tests.
_DATA: Final = frozenset(
    {"data", "fixture", "fixtures", "example", "examples", "resources", "samples", "templates", "testdata"}
)


class Planted(NamedTuple):
    """A module's text with the names of its class, which may be empty, and of its two tests."""

    text: str
    owner: str
    failing: str
    passing: str


def draw_folder(paths: Sequence[str], draw: Random) -> str:
    """A folder of one of ``paths``, which are tests; rather one that holds no data of others."""
    folders = sorted({posixpath.dirname(path) for path in paths})
    likely = [folder for folder in folders if not _DATA.intersection(folder.split("/"))]
    return draw.choice(likely or folders)


def draw_words(draw: Random) -> str:
    """Return random words that may name a test."""
    return "_".join(draw.sample(_WORDS, draw.randint(2, 3))) + draw.choice(("", f"_{draw.randint(2, 99)}"))


def plant_functions(draw: Random, prefix: str = "test") -> Planted:
    """Plant functions with assertions."""
    failing, passing = _draw_names(draw, prefix)
    values = _values(draw)
    tests = [
        f"def {failing}():\n    found = sorted({values!r})\n    assert found[0] == {max(values)}\n",
        f"def {passing}():\n    found = sorted({values!r})\n    assert found[-1] == {max(values)}\n",
    ]
    draw.shuffle(tests)
    return Planted("\n\n".join(tests), "", failing, passing)


def plant_methods(draw: Random) -> Planted:
    """Plant methods of a ``unittest.TestCase``."""
    failing, passing = _draw_names(draw, "test")
    owner, values = "".join(word.title() for word in draw_words(draw).split("_")) + "Test", _values(draw)
    tests = [
        f"    def {failing}(self):\n        self.assertEqual(min({values!r}), {max(values)})\n",
        f"    def {passing}(self):\n        self.assertEqual(max({values!r}), {max(values)})\n",
    ]
    draw.shuffle(tests)
    return Planted(f"import unittest\n\n\nclass {owner}(unittest.TestCase):\n" + "\n".join(tests), owner, failing, passing)


def _draw_names(draw: Random, prefix: str) -> tuple[str, str]:
    words = {draw_words(draw) for _ in range(8)}
    failing, passing = draw.sample(sorted(words), 2)
    return f"{prefix}_{failing}", f"{prefix}_{passing}"


def _values(draw: Random) -> list[int]:
    return draw.sample(range(1, 1000), draw.randint(3, 6))
