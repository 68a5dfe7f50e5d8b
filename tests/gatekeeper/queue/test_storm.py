"""Sixty changes on one branch, while gatekeepers end and others push to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from gatewright.bus.topology import queue_subject
from gatewright.contracts import QueueTransition, TaskContract, TestReport, codec
from gatewright.contracts.queue_policy import HoldConditions, QueuePolicy, Timeouts, Window
from gatewright.evidence.verification.verify import verify
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.decider.inputs import Continue
from tests.gatekeeper.queue.cluster import SERIAL, Cluster, Connect, is_red, make_report, open_cluster
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

CHANGES, PUSHES, MEMBERS = 60, 20, 3
#: Seconds that a test takes, between two ends of a gatekeeper, and between two pushes from outside.
TEST, KILL, PUSH = 0.5, 2.0, 1.5
#: An infrastructure hold would need a person. Lost tests are not what this is about.
PATIENT = {"timeouts": Timeouts(report_s=20), "hold": HoldConditions(lost_tests=50, red_entries=50)}
WIDE = QueuePolicy(batch_size=8, window=Window(start=4, least=2, most=8), **PATIENT)  # type: ignore[arg-type]


def change_of(number: int) -> tuple[str, dict[str, bytes | None], str]:
    """Name of a run, its files, and how it must end: some are broken, some add the file of the one before."""
    name = f"change {number:02}"
    if number % 10 == 4:
        return name, {f"{number:02}.txt": b"bad\n"}, "merge_tests_failed"
    if number % 10 == 7:
        return name, {f"{number - 1:02}.txt": b"too late\n"}, "merge_conflict"
    return name, {f"{number:02}.txt": b"good\n"}, "landed"


@dataclass
class Storm:
    """What happens to a cluster at the same time. It ends with ``done``."""

    cluster: Cluster
    random: random.Random
    outside: list[str] = field(default_factory=list)
    kills: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    answers: set[asyncio.Task[None]] = field(default_factory=set)

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.done.wait()

    async def kill(self) -> None:
        """End a gatekeeper, and start another one in its place."""
        while not self.done.is_set():
            await self.pause(KILL)
            victim = self.random.choice([member for member in self.cluster.members if not member.dead])
            victim.kill()
            self.kills += 1
            await victim.close()
            await self.cluster.add()

    async def push(self) -> None:
        """Push from outside the queue."""
        for number in range(PUSHES):
            self.outside.append(self.cluster.push({f"outside-{number:02}.txt": b"outside\n"}))
            await self.pause(PUSH)

    async def serve(self) -> None:
        """Answer all tests, each after the time that it takes."""
        while not self.done.is_set():
            await self.cluster.serve()
            await self.pause(0.05)

    async def test(self, contract: TaskContract, files: Mapping[str, bytes]) -> TestReport | None:
        """Begin a test, whose answer comes later."""
        tree, _ = await self.cluster.checkout(contract)
        task = asyncio.get_running_loop().create_task(self._answer(make_report(contract, tree, files)))
        self.answers.add(task)
        task.add_done_callback(self.answers.discard)
        return None

    async def _answer(self, report: TestReport) -> None:
        await asyncio.sleep(TEST)
        await self.cluster.take(report)

    async def look(self, names: Mapping[str, str]) -> None:
        """Continue runs that left the queue and whose gatekeeper ended, as the look at stalled runs does."""
        ended = (await self.cluster.queue()).ended
        for run_id in map(run_id_of, names):
            if run_id in ended and (await self.cluster.run(run_id)).sealed is None:
                await self.cluster.advance(run_id, Continue(f"{run_id}:look"))

    async def play(self) -> dict[str, str]:
        """Queue all changes; how each of them ended."""
        cluster = self.cluster
        cluster.runner = self.test
        expected: dict[str, str] = {}
        beside = [asyncio.create_task(each()) for each in (self.kill, self.push, self.serve)]
        try:
            await self._queue_all(expected)
            async with asyncio.timeout(2 * PATIENCE):
                while not await self._is_over(expected):
                    await self.look(expected)
                    await asyncio.sleep(0.3)
                await beside[1]
        finally:
            self.done.set()
            await asyncio.gather(*beside, return_exceptions=True)
        for task in beside:
            task.result()
        runs = {name: await cluster.run(run_id_of(name)) for name in expected}
        found = {name: run.failure.code if run.failure is not None else "landed" for name, run in runs.items()}
        assert found == expected
        return found

    async def _queue_all(self, expected: dict[str, str]) -> None:
        baseline = self.cluster.target.head()
        for number in range(CHANGES):
            name, files, expected[name] = change_of(number)
            # A conflict needs the baseline of the run before it, which adds the same file.
            baseline = baseline if expected[name] == "merge_conflict" else self.cluster.target.head()
            await self.cluster.enqueue(name, files, baseline=baseline)

    async def _is_over(self, names: Mapping[str, str]) -> bool:
        runs = [await self.cluster.run(run_id_of(name)) for name in names]
        return all(run.sealed is not None for run in runs)


async def seconds_to_land(cluster: Cluster) -> list[float]:
    """Seconds from the queue's entry to the landing of each run, sorted."""
    entered: dict[str, datetime] = {}
    found = []
    async for message in cluster.bus.replay(queue_subject("*")):
        step = codec.decode(message.data, QueueTransition)
        when = datetime.fromisoformat(step.ts)
        for record in step.events:
            if record.event_type == "entry_enqueued":
                entered[record.payload["entry"]["run_id"]] = when
            elif record.event_type == "position_landed":
                found += [(when - entered[run_id]).total_seconds() for run_id in record.payload["runs"]]
    return sorted(found)


async def check_branch(cluster: Cluster, storm: Storm, endings: Mapping[str, str]) -> None:
    """Every commit has a receipt or came from outside, and every value of the branch is green."""
    landed = [name for name, code in endings.items() if code == "landed"]
    commits = {(await cluster.receipt(name)).commits()[run_id_of(name)] for name in landed}
    history = cluster.history()
    assert len(commits) == len(landed)
    assert set(history[1:]) == commits | set(storm.outside)
    assert len(storm.outside) == PUSHES
    updates = cluster.ref_updates()
    assert len(set(updates)) == len(updates)
    assert set(updates) == {(await cluster.receipt(name)).after.commit for name in landed} | set(storm.outside)
    order = {commit: place for place, commit in enumerate(history)}
    assert updates == sorted(updates, key=order.__getitem__)
    for commit in updates:
        names = cluster.target.git("ls-tree", "-r", "--name-only", commit).decode().split()
        assert not is_red({name: cluster.target.git("show", f"{commit}:{name}") for name in names})
    for name in landed[::10]:
        assert verify(cluster.bundle(name), [cluster.public_key]).ok


@pytest.mark.long
@pytest.mark.every_case
@pytest.mark.parametrize("policy", [pytest.param(WIDE, id="wide"), pytest.param(SERIAL, id="serial")])
async def test_no_good_change_is_lost_while_gatekeepers_end_and_others_push(
    connect: Connect,
    make_repository: MakeRepository,
    tmp_path: Path,
    policy: QueuePolicy,
    record_property: Callable[[str, object], None],
) -> None:
    async with open_cluster(connect, tmp_path, make_repository(), policy=policy, members=MEMBERS) as cluster:
        storm = Storm(cluster, random.Random(1))  # noqa: S311 - the order of ends, no secret
        endings = await storm.play()
        await check_branch(cluster, storm, endings)
        times = await seconds_to_land(cluster)
        facts = {
            "landed": len(times),
            "kills": storm.kills,
            "median": times[len(times) // 2],
            "p95": times[len(times) * 95 // 100],
        }
        for name, value in facts.items():
            record_property(name, value)
        sys.stderr.write(f"{facts}\n")
