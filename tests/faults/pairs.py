"""``python -m tests.faults.pairs --pairs 20000``: does a role that is free ever wait for a task that lies there?

Two tasks of different priority classes are published within a millisecond of each other, on the real server with its accounts,
to roles of which at least one is free. A gap is the time for which a task was stored, a role was free, and the task was not
taken. Printed are the gaps above a second and the longest one; the exit code is 1 when there was any.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.app.cli.home import make_home
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus.identities import bus_keys
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import task_consumers
from gatewright.tasks.priority_queue import ClassQueue

#: Seconds that count as a stall.
STALL = 1.0
#: Seconds after which a task that has not come is given up: longer than the server waits before it delivers again.
LOST = 30.0
QUEUES = task_consumers("worker")


@dataclass
class Gaps:
    """What was seen. ``again``: deliveries beyond the first; ``most``: of one task."""

    taken: int = 0
    again: int = 0
    most: int = 0
    gaps: list[float] = field(default_factory=list)

    @property
    def stalls(self) -> int:
        return sum(gap > STALL for gap in self.gaps)

    @property
    def longest(self) -> float:
        return max(self.gaps, default=0.0)

    def __str__(self) -> str:
        return (
            f"{self.taken} tasks taken, {self.again} deliveries beyond the first, {self.most} of one task at most; "
            f"{self.stalls} gaps above {STALL:g} s, the longest {self.longest * 1000:.1f} ms"
        )


class Roles:
    """Processes of one role, as tasks of this one; each on a connection of its own."""

    def __init__(self, work: float) -> None:
        self.seen = Gaps()
        self._work = work
        self._stored: dict[bytes, float] = {}
        self._left: dict[bytes, asyncio.Event] = {}
        self._free: dict[int, float] = {}

    def stored(self, name: bytes) -> asyncio.Event:
        """A task is about to be published; the event is set once it was taken."""
        self._stored[name] = time.perf_counter()
        self._left[name] = asyncio.Event()
        return self._left[name]

    async def serve(self, number: int, bus: JetStreamBus, stop: asyncio.Event) -> None:
        queue = await ClassQueue.open(bus, QUEUES)
        self._free[number] = time.perf_counter()
        while not stop.is_set():
            delivery = await queue.next(0.5)
            if delivery is None:
                continue
            now = time.perf_counter()
            name = delivery.message.data
            # Since when this task lay there while any role was free.
            self.seen.gaps.append(now - max(self._stored[name], min(self._free.values())))
            self.seen.taken += 1
            self.seen.again += delivery.attempts - 1
            self.seen.most = max(self.seen.most, delivery.attempts)
            self._free[number] = float("inf")
            await asyncio.sleep(random.uniform(0, self._work))  # noqa: S311 - it is a load, no secret
            await delivery.ack()
            self._left[name].set()
            self._free[number] = time.perf_counter()
        await queue.close()


async def measure(folder: Path, pairs: int, *, roles: int = 1, apart: float = 0.001, work: float = 0.002) -> Gaps:
    """Publish so many pairs, each at most ``apart`` seconds apart, to so many roles that work for up to ``work`` seconds."""
    make_home(folder / "home")
    server = await NatsServer.start(folder / "nats", keys=bus_keys(folder / "home"))
    gatekeeper = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
    buses = [await JetStreamBus.connect(server.address("worker"), name="worker") for _ in range(roles)]
    stop, crew = asyncio.Event(), Roles(work)
    try:
        await ensure_topology(gatekeeper)
        async with asyncio.TaskGroup() as group:
            for number, bus in enumerate(buses):
                group.create_task(crew.serve(number, bus, stop))
            for number in range(pairs):
                one, other = random.sample(QUEUES, 2)
                await asyncio.gather(
                    _give(gatekeeper, crew, b"%d.1" % number, one.subject, 0.0),
                    _give(gatekeeper, crew, b"%d.2" % number, other.subject, random.uniform(0, apart)),  # noqa: S311
                )
                await asyncio.sleep(random.uniform(0, 0.003))  # noqa: S311 - the roles stand before their queues again, or nearly
            stop.set()
    finally:
        for each in (*buses, gatekeeper):
            await each.close()
        await server.stop()
    return crew.seen


async def _give(bus: JetStreamBus, crew: Roles, name: bytes, subject: str, later: float) -> None:
    await asyncio.sleep(later)
    taken = crew.stored(name)
    await bus.publish(subject, name, schema="task_contract.v1", message_id=name.decode())
    async with asyncio.timeout(LOST):
        await taken.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--roles", type=int, default=1)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gatewright-pairs-") as folder:
        seen = asyncio.run(measure(Path(folder), words.pairs, roles=words.roles))
    print(seen)  # noqa: T201 - it is a command
    return 1 if seen.stalls else 0


if __name__ == "__main__":
    sys.exit(main())
