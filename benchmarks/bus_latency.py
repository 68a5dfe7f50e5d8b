"""How long the bus takes: ``python -m benchmarks.bus_latency`` starts a server of its own and prints medians in milliseconds.

Publisher and consumer are two connections of one process, the server is another process. ``round trip`` is a bare PING:
what the machine adds to everything at this moment.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import task_consumer

ROUNDS = 300
PAYLOAD = bytes(2000)
TASKS = task_consumer("worker")
Result = TypeVar("Result")


class Times:
    """Samples by name, in seconds."""

    def __init__(self) -> None:
        self._samples: defaultdict[str, list[float]] = defaultdict(list)

    async def take(self, name: str, work: Awaitable[Result]) -> Result:
        start = time.perf_counter()
        result = await work
        self._samples[name].append(time.perf_counter() - start)
        return result

    def show(self) -> None:
        print(f"{'':34}{'fastest tenth':>15}{'median':>9}{'p95':>9}")
        for name, samples in self._samples.items():
            tenths = statistics.quantiles(samples, n=20)
            print(f"{name:34}{tenths[1] * 1e3:15.2f}{statistics.median(samples) * 1e3:9.2f}{tenths[18] * 1e3:9.2f}")


async def deliver(gatekeeper: JetStreamBus, worker: JetStreamBus, times: Times) -> None:
    """From the call of publish to the delivery in the hands of a consumer that waits."""
    subscription = await worker.consume(TASKS)
    for number in range(ROUNDS):
        waiting = asyncio.create_task(subscription.next(5))
        await asyncio.sleep(0.002)
        message_id = f"task-{number}"
        publishing = asyncio.create_task(gatekeeper.publish(TASKS.subject, PAYLOAD, schema="bench", message_id=message_id))
        delivery = await times.take("publish to delivery", waiting)
        await publishing
        if delivery is not None:
            await delivery.ack()


async def store(gatekeeper: JetStreamBus, worker: JetStreamBus, times: Times) -> None:
    sequence = 0
    for number in range(ROUNDS):
        await times.take("round trip", gatekeeper.connection.flush())
        append = gatekeeper.publish(
            "gw.run.bench", PAYLOAD, schema="bench", message_id=f"m-{number}", expected_subject_sequence=sequence
        )
        sequence = (await times.take("append to the ledger", append)).sequence
        data = os.urandom(2048)
        uri = await times.take("put an artifact of 2 KiB", gatekeeper.put_artifact(data))
        await times.take("put it again", gatekeeper.put_artifact(data))
        await times.take("get it", worker.get_artifact(uri))


async def read(gatekeeper: JetStreamBus, times: Times) -> None:
    for run in range(20):
        for number in range(15):
            await gatekeeper.publish(f"gw.run.{run}", PAYLOAD, schema="bench", message_id=f"{run}.{number}")

    async def load(run: int) -> int:
        return len([message async for message in gatekeeper.replay(f"gw.run.{run}")])

    for number in range(100):
        await times.take("replay a run of 15 transitions", load(number % 20))


async def main() -> None:
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        async with await times.take("start a server", NatsServer.start(Path(folder) / "first")):
            pass
        async with await times.take("start a server", NatsServer.start(Path(folder) / "second")) as server:
            await ensure_topology(server.address("provisioner"))
            gatekeeper = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
            worker = await JetStreamBus.connect(server.address("worker"), name="worker")
            await deliver(gatekeeper, worker, times)
            await store(gatekeeper, worker, times)
            await read(gatekeeper, times)
            await gatekeeper.close()
            await worker.close()
    times.show()


if __name__ == "__main__":
    asyncio.run(main())
