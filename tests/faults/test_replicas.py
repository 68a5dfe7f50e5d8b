"""Two gatekeepers under blows, and every service restarted in order: no run lost, none doubled; the whole is a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.replicas import fight, roll


@pytest.mark.parametrize("own_homes", [False, True], ids=["one-home", "a-home-each"])
async def test_two_gatekeepers_that_are_killed_at_random_write_one_history_of_every_run(
    tmp_path: Path, own_homes: bool
) -> None:
    fought, outcome = await fight(tmp_path, 10, gatekeepers=2, own_homes=own_homes, seconds=30.0, seed=7)
    assert outcome.faults == {}
    assert outcome.sealed == outcome.runs >= 4
    assert fought.blows.total() >= 2


async def test_a_rolling_restart_of_every_service_loses_and_doubles_no_run(tmp_path: Path) -> None:
    rolling, outcome = await roll(tmp_path, 12, gatekeepers=2, seconds=30.0)
    assert outcome.faults == {}
    assert outcome.sealed == outcome.runs >= 5
    assert rolling.restarts["gatekeeper"] >= 2
