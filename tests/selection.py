"""Which of the collected tests are played: of long tables some cases, of the long series a share. Pure, but for their marks.

CI plays what `make test` plays, and of the files one share of several in full: each commit has the next one, so that as many
commits as there are shares play all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import pytest


@dataclass(frozen=True, slots=True)
class Share:
    """The files of one of ``total`` equal parts, chosen by name; ``number`` counts from 1."""

    number: int
    total: int

    @classmethod
    def read(cls, text: str) -> Self:
        """From ``K/N``. Raises ValueError for anything else, and where there is no such share."""
        found = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text, re.ASCII)
        share = cls(int(found[1]), int(found[2])) if found else None
        if share is None or not 1 <= share.number <= share.total:
            raise ValueError(f"there is no share {text!r}")
        return share

    def has(self, file: str) -> bool:
        """Whether the file belongs to it: ``file`` is its path, as node ids have it."""
        found = int.from_bytes(hashlib.sha256(file.encode()).digest()[:8], "big")
        return found % self.total == self.number - 1


def beyond_share(items: Iterable[pytest.Item], share: Share, most: int) -> set[pytest.Item]:
    """What is left out: within the share the beginnings of what is played whole, elsewhere what `make test` does not play.

    What needs containers is always played in full.
    """
    left_out: set[pytest.Item] = set()
    others: list[pytest.Item] = []
    for item in items:
        whole = share.has(item.nodeid.partition("::")[0]) or item.get_closest_marker("compose")
        if item.get_closest_marker("short" if whole else "long"):
            left_out.add(item)
        elif not whole:
            others.append(item)
    return left_out | further_cases(others, most)


def further_cases(items: Iterable[pytest.Item], most: int) -> set[pytest.Item]:
    """What is left out of tests with more than ``most`` cases: all but the first, the last, and others evenly between them."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for each in cases.values():
        if len(each) > most:
            played = {round(number * (len(each) - 1) / (most - 1)) for number in range(most)}
            left_out.update(item for number, item in enumerate(each) if number not in played)
    return left_out
