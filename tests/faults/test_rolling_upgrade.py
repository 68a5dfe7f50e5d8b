"""The version before the newest schemas and this one side by side, up and back again, under load."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.rolling_upgrade import ORDER, before_the_newest_schemas, trial


@pytest.mark.long
async def test_an_upgrade_of_every_process_and_the_way_back_lose_and_double_no_run(tmp_path: Path) -> None:
    try:
        older = before_the_newest_schemas()
    except subprocess.CalledProcessError:
        pytest.skip("a checkout without its history has no older version")
    found = await trial(tmp_path, older, seconds=20.0)
    assert found["faults"] == {}
    assert found["dead letters"] == 0
    assert found["sealed"] == found["runs"]
    assert isinstance(found["runs"], int)
    assert found["runs"] > len(ORDER)
    assert found["processes started"] == {"old": 2 * len(ORDER), "new": len(ORDER)}
