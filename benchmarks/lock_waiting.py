"""``python -m benchmarks.lock_waiting [--runs 60] [--work 1]``: runs that wait for each other's paths.

All want one path of one repository on one ref, so that they can only come one after the other. Each works for a second; with
review and tests it holds the path for longer. Measured are the time from the first dispatch to a worker until the last run's
end, for how much of it the path was held, the gatekeeper's processor time, and the deliveries of the queues that it reads.
All but the first are refused in the end, because the ref has moved by then: what is measured is how they come to their turn.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import used
from benchmarks.waiting_work import PREFIX, SANDBOXED, SECOND, make_fields, waiting_request, when
from benchmarks.workload import git, proved
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import INTAKE_CONSUMER, RESULT_CONSUMER
from gatewright.contracts.vocabulary import AcceptanceTest, Repository


class _Delivered(msgspec.Struct):
    consumer_seq: int = 0


class _InfoReply(ApiReply):
    delivered: _Delivered = msgspec.field(default_factory=_Delivered)


@dataclass(frozen=True)
class Waited:
    """``held``: seconds that the runs had the path, together; ``longest_pause``: seconds from one run's last judgement to the
    next one's dispatch, while others wait."""

    runs: int
    work: float
    seconds: float
    held: float
    longest_pause: float
    processor: float
    deliveries: int

    def __str__(self) -> str:
        return (
            f"{self.runs} runs that work for {self.work} s on one path: {self.seconds:.1f} s, {self.held:.1f} s of them with "
            f"the path, {self.held / self.runs:.2f} s each; {self.longest_pause:.2f} s between two at most; gatekeeper "
            f"{self.processor:.1f} s of processor time, {self.deliveries} deliveries"
        )


async def measure(root: Path, runs: int, work: float = SECOND) -> Waited:
    fields = make_fields(root / "fields", 1, work)
    git(fields, "branch", "landing")
    home = root / "home"
    make_home(home)
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    stack = Supervisor(StackOptions(home=home, base_environment=base, workers=2, environments=(PREFIX,), shared=True))
    await stack.start()
    try:
        await stack.ready(60.0)
        bus = await JetStreamBus.connect(stack.address, name="bench")
        async with Client.connect(stack.address) as client:
            request = replace(
                waiting_request(fields, SANDBOXED, 0, 1),
                acceptance_tests=(AcceptanceTest(name="unit", cmd="python -m unittest -q test_fields", must_pass=True),),
                repository=Repository(url=str(fields), target_ref="refs/heads/landing", landing="target"),
                # Where the branch is when a run is submitted: it may land before all of them are.
                baseline_ref="refs/heads/landing",
            )
            gatekeeper = [member.pid for member in stack.members if member.name.startswith("gatekeeper")]
            spent, delivered = used(gatekeeper), await deliveries(bus)
            run_ids = [await client.submit_request(request, patience=10.0) for _ in range(runs)]
            for run_id in run_ids:
                proved(await client.wait(run_id, timeout=600), "landing_conflict")
            processor, delivered = used(gatekeeper) - spent, await deliveries(bus) - delivered
            events = [event for run_id in run_ids for event in await client.events(run_id)]
        await bus.close()
    finally:
        await stack.stop()
    begun = sorted(
        when(event) for event in events if event.event_type == "task_dispatched" and event.payload["role"] == "worker"
    )
    done = sorted(when(event) for event in events if event.event_type == "run_finished")
    pauses = [later - earlier for earlier, later in zip(done, begun[1:], strict=False)]
    held = sum(done) - sum(begun)
    return Waited(runs, work, done[-1] - begun[0], held, max(pauses, default=0.0), processor, delivered)


async def deliveries(bus: JetStreamBus) -> int:
    """Of the gatekeeper's queues, so far."""
    found = [
        await bus.connection.api(f"CONSUMER.INFO.{queue.stream}.{queue.durable}", {}, _InfoReply)
        for queue in (INTAKE_CONSUMER, RESULT_CONSUMER)
    ]
    return sum(each.delivered.consumer_seq for each in found)


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--work", type=float, default=SECOND, help="seconds that each works")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-locks-") as folder:
        started = time.perf_counter()
        print(asyncio.run(measure(Path(folder), given.runs, given.work)))
        print(f"in all {time.perf_counter() - started:.1f} s")
    return {}


if __name__ == "__main__":
    main(sys.argv[1:])
