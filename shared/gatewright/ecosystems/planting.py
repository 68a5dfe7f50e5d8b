"""Names for planted tests: ordinary words, so that no pattern recognises a planted test by its name."""

from __future__ import annotations

from random import Random

_NOUNS = ("account", "batch", "border", "buffer", "cache", "cursor", "digest", "field", "header", "index", "label", "layout")
_MORE = ("limit", "margin", "merge", "offset", "order", "padding", "parser", "path", "prefix", "record", "window", "zone")
_VERBS = ("accepts", "adds", "copies", "counts", "drops", "joins", "keeps", "moves", "orders", "reads", "rounds", "splits")


def words(draw: Random, count: int = 2) -> tuple[str, ...]:
    """``count`` nouns, and a number that makes them single."""
    return (*draw.sample((*_NOUNS, *_MORE), count), str(draw.randrange(1000, 1_000_000)))


def sentence(draw: Random) -> str:
    """A title: letters, digits and spaces."""
    first, second, number = words(draw)
    return f"{first} {draw.choice(_VERBS)} {second} {number}"


def sum_of(draw: Random) -> tuple[int, int, int, int]:
    """Two numbers, their sum, and a number that is not their sum."""
    one, other = draw.randrange(10, 1000), draw.randrange(10, 1000)
    return one, other, one + other, one + other + draw.randrange(1, 9)
