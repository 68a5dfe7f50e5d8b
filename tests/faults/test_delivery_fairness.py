"""One worker, a large run, and a small one on another repository or the same, ordered after it: the small one need not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright import Client
from tests.e2e.conftest import FILES
from tests.e2e.stack import slow_request
from tests.faults.outage_house import House, house
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

SHARDS = 60
FILES_OF_MANY = {**FILES, **{f"src/part{number:02}.py": b"a = 1\n" for number in range(SHARDS - 2)}}


@pytest.fixture
async def whole_house(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home-of-house") as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("same_repository", [False, True])
async def test_a_small_run_ends_long_before_an_earlier_large_one(
    whole_house: House, make_repository: MakeRepository, *, same_repository: bool
) -> None:
    large_project = make_repository("large", files=FILES_OF_MANY).path
    small_project = large_project if same_repository else make_repository("small", files=FILES).path
    async with Client.connect(whole_house.address) as client:
        large_request = replace(slow_request(large_project, 0.2, parts=SHARDS), request="a large change")
        large = await client.submit_request(large_request, patience=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while len((await client.get(large)).workers()) < SHARDS or (await client.get(large)).state != "S2":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        begun = time.monotonic()
        small = await client.submit_request(slow_request(small_project, 0.2), patience=PATIENCE)
        run = await client.wait(small, timeout=PATIENCE)
        seconds = time.monotonic() - begun
        behind = await client.get(large)
        done = sum(task.status == "SUCCESS" for task in behind.workers())
        await client.abort(large, "the test is over")
        await client.wait(large, timeout=PATIENCE)
    whole_house.tell(f"the small run took {seconds:.1f} s; the large one had done {done} of {SHARDS} parts by then")
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert behind.status == "RUNNING"
    assert done < SHARDS / 2
