"""A moment of every fuzz target, from fixed seeds; `python -m tests.fuzz` goes on for as long as it is told."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.targets import Targets

INPUTS = {"patches": 120, "replies": 1500, "contracts": 400, "commands": 3000}


@pytest.fixture(scope="module")
def targets() -> Iterator[Targets]:
    made = Targets()
    yield made
    made.close()


@pytest.mark.parametrize("name", INPUTS)
def test_nothing_crashes_and_nothing_is_accepted_beyond_the_contract(name: str, targets: Targets) -> None:
    step = targets.steps()[name]
    accepted = sum(step(random.Random(seed)) for seed in range(INPUTS[name]))  # noqa: S311 - inputs, no secrets
    # Inputs that are all refused at the first check would prove nothing.
    assert 0 < accepted < INPUTS[name]
