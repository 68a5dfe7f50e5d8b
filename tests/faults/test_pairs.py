"""A short part of ``python -m tests.faults.pairs``: a free role waits for no task that came together with one it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.bus.topology import task_consumer
from tests.faults.pairs import measure

pytestmark = pytest.mark.long


async def test_two_tasks_published_together_both_arrive(tmp_path: Path) -> None:
    seen = await measure(tmp_path, 500)
    assert seen.taken == 1000
    assert seen.stalls == 0


async def test_several_roles_that_give_tasks_back_to_each_other_use_none_up(tmp_path: Path) -> None:
    seen = await measure(tmp_path, 150, roles=6)
    assert seen.taken == 300
    assert seen.most < task_consumer("worker").max_deliver
    assert seen.stalls == 0
