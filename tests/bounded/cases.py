"""What the worst inputs are listed in: a case is a judging function with the input that is worst for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MiB: Final = 1 << 20

Case = Callable[[], object]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[name] = function
        return function

    return add
