"""A small storm over a merge queue; ``python -m tests.faults.queue_storm`` plays the whole one, beside a serial queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.queue_storm import storm


@pytest.mark.long
async def test_no_good_change_is_lost_while_gatekeepers_are_killed_and_others_push(tmp_path: Path) -> None:
    played = await storm(tmp_path, 10, pushes=3, between=4.0, test_seconds=1.0, queues=("wide",))
    assert {name: each.faults for name, each in played.items()} == {"wide": {}}
    assert (played["wide"].landed, played["wide"].left) == (9, 2)
    assert played["wide"].pushes == 4
    assert played["wide"].kills
