"""Two gatekeepers under blows, and every service restarted in order: no run lost, none doubled; the whole is a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.stack.fork_server import START_ORDER
from tests.faults.replicas import BLOWS, fight, roll
from tests.waiting import PATIENCE


@pytest.mark.long
@pytest.mark.parametrize(
    ("own_homes", "partitions"), [(False, 1), (True, 1), (False, 3)], ids=["one-home", "a-home-each", "ledger-in-three-streams"]
)
async def test_two_killed_gatekeepers_write_one_history_of_every_run(tmp_path: Path, own_homes: bool, partitions: int) -> None:
    fought, outcome = await fight(
        tmp_path, 10, gatekeepers=2, own_homes=own_homes, seconds=PATIENCE, seed=4, partitions=partitions
    )
    assert outcome.faults == {}
    assert outcome.sealed == outcome.runs == 10
    assert fought.blows.total() == 5
    assert set(fought.blows) == set(BLOWS)


@pytest.mark.long
async def test_a_rolling_restart_of_every_service_loses_and_doubles_no_run(tmp_path: Path) -> None:
    rolling, outcome = await roll(tmp_path, 12, gatekeepers=2, seconds=PATIENCE)
    assert outcome.faults == {}
    assert outcome.sealed == outcome.runs == 12
    assert set(rolling.restarts) == set(START_ORDER)
    assert rolling.restarts["gatekeeper"] >= 2
