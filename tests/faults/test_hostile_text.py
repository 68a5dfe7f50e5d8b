"""A run whose text is made to hold its judges up, beside runs that want to get on; and what is left of an aborted run."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository, Scope
from gatewright.run.state import Run
from tests.e2e.conftest import FILES
from tests.e2e.stack import PREFIX, slow_request
from tests.faults.fault_stack import House, open_house
from tests.faults.test_delivery_abort import AGES, sleepers, tasks_left, until
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

#: A test file as the baseline has it, and as the hostile patch makes it: one line, within the largest file that is let in.
CASE = b"it.each(rows)('adds', (a, b) => { expect(a + b) })\n"
ENDLESS = b"it.each" + b"\t" * 900_000 + b"\n"
SECONDS = PATIENCE


@pytest.fixture
async def full_house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, workers=2) as made:
        yield made


def hostile_patch() -> bytes:
    head = b"diff --git a/tests/a.test.js b/tests/a.test.js\n--- a/tests/a.test.js\n+++ b/tests/a.test.js\n@@ -1 +1 @@\n"
    return head + b"-" + CASE + b"+" + ENDLESS


async def hostile_request(house: House, project: Path) -> RunRequest:
    return RunRequest(
        request="tests, slightly longer",
        repository=Repository(url=str(project)),
        requested_by="tests",
        allowed_paths=("tests",),
        scope=Scope(allow_protected_paths=("tests",)),
        acceptance_tests=(AcceptanceTest(name="there", cmd="python tools/there.py", must_pass=True),),
        executor=Executor(kind="patch", artifacts=("endless",)),
        artifacts=(await house.client.attach("endless", hostile_patch()),),
        environment=Environment(prefix=str(PREFIX)),
    )


async def ended(house: House, request: RunRequest) -> Run:
    return await house.client.wait(await house.client.submit_request(request, patience=PATIENCE), timeout=SECONDS)


@pytest.mark.long
async def test_a_hostile_test_file_delays_no_review_or_run(full_house: House, make_repository: MakeRepository) -> None:
    files = {**FILES, "tests/a.test.js": CASE, "tools/there.py": b"import pathlib\nassert pathlib.Path('tests').is_dir()\n"}
    hostile = make_repository("hostile", files=files).path
    innocent = [make_repository(f"innocent-{number}", files=FILES).path for number in range(2)]
    first = asyncio.create_task(ended(full_house, await hostile_request(full_house, hostile)))
    others = await asyncio.gather(*(ended(full_house, slow_request(project, 0)) for project in innocent))
    assert [run.status for run in others] == ["SUCCESS", "SUCCESS"]
    assert (await first).ended


@pytest.mark.long
async def test_a_restarted_stuck_role_revives_nothing_of_an_aborted_run(
    full_house: House, make_repository: MakeRepository
) -> None:
    project = make_repository("project", files=FILES).path
    client = full_house.client
    run_id = await client.submit_request(slow_request(project, AGES), patience=PATIENCE)
    await until(lambda: bool(sleepers()), PATIENCE)
    stuck = full_house.kill("worker", signal.SIGSTOP)  # it hears no notice and settles nothing
    await client.abort(run_id, "enough")
    run = await client.wait(run_id, timeout=PATIENCE)
    assert run.status == "ABORTED"
    assert await tasks_left(client) == 0
    for pid in stuck:
        os.kill(pid, signal.SIGKILL)
    await full_house.back("worker", stuck)
    other = make_repository("other", files=FILES).path
    assert (await ended(full_house, slow_request(other, 0))).status == "SUCCESS"
    assert not sleepers()
