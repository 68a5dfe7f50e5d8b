"""What a ledger in several streams would gain: ``python -m benchmarks.ledger_partitions [--streams 1 4] [--in-flight 8 64]``.

Three synced servers, streams of three replicas, and appends as the ledger makes them: ten for each run, one after another, each
on condition that the run's last message is still the one that was read. A run lies in a stream by the hash of its id. Nothing
else is done, so this is the most that gatekeepers could gain. Each round takes all numbers of streams in turns. Beside the rate
stand the processor time of the three servers and of the writer for an append, and how busy the machine was.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.js.api import StreamConfig
from nats.js.client import JetStreamContext
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import Machine, used
from tests.faults.server_cluster import SERVERS, ServerCluster

#: An entry of a patch that lands, and how many such a run has.
ENTRY, ENTRIES = bytes(4800), 10
_USER = {"user": "bench", "password": "only-on-loopback"}
_LAST = "Nats-Expected-Last-Subject-Sequence"
console = Console(highlight=False, width=120)


@dataclass(frozen=True)
class AppendRate:
    """Appends a second; milliseconds of processor time for one, of all servers and of the writer; how busy all cores were."""

    appends: float
    servers: float
    writer: float
    busy: float


Case = tuple[int, int]


async def measure(cluster: ServerCluster, cases: Sequence[Case], runs: int, rounds: int) -> dict[Case, list[AppendRate]]:
    """Of each pair of streams and runs in flight, one figure for each round."""
    found: dict[Case, list[AppendRate]] = {case: [] for case in cases}
    clients = [await nats.connect(url, **_USER) for url in cluster.url.split(",")]
    try:
        for number in range(rounds + 1):
            for streams, in_flight in cases:
                name = f"{number}-{streams}-{in_flight}"
                rate = await one(cluster, [client.jetstream(timeout=30) for client in clients], name, streams, in_flight, runs)
                if number:  # the first one warms up
                    found[streams, in_flight].append(rate)
    finally:
        for client in clients:
            await client.close()
    return found


async def one(
    cluster: ServerCluster, writers: Sequence[JetStreamContext], name: str, streams: int, in_flight: int, runs: int
) -> AppendRate:
    for number in range(streams):
        await writers[0].add_stream(
            StreamConfig(f"RUNS-{name}-{number}", subjects=[f"run.{name}.{number}.*"], num_replicas=SERVERS)
        )
    waiting = iter(range(runs))

    async def write() -> None:
        for run in waiting:
            subject = f"run.{name}.{zlib.crc32(f'run-{run}'.encode()) % streams}.run-{run}"
            last = 0
            for entry in range(ENTRIES):
                headers = {"Nats-Msg-Id": f"{subject}:{entry}", _LAST: str(last)}
                last = (await writers[run % len(writers)].publish(subject, ENTRY, headers=headers)).seq

    pids = [process.pid for process in cluster.processes]
    machine, spent, own, began = Machine.now(), used(pids), time.process_time(), time.perf_counter()
    await asyncio.gather(*(write() for _ in range(in_flight)))
    seconds, count = time.perf_counter() - began, runs * ENTRIES
    rate = AppendRate(
        count / seconds,
        1000 * (used(pids) - spent) / count,
        1000 * (time.process_time() - own) / count,
        Machine.now().share_since(machine),
    )
    for number in range(streams):
        await writers[0].delete_stream(f"RUNS-{name}-{number}")
    return rate


def show(found: dict[Case, list[AppendRate]], numbers: Sequence[int], in_flight: Sequence[int]) -> None:
    table = Table("runs in flight", "streams", "appends a second", "to one stream", "servers, ms", "writer, ms", "busy")
    for lanes in in_flight:
        alone = statistics.median(rate.appends for rate in found[numbers[0], lanes])
        for number in numbers:
            rates = found[number, lanes]
            middle = statistics.median(rate.appends for rate in rates)
            table.add_row(
                str(lanes),
                str(number),
                f"{middle:.0f} ({min(r.appends for r in rates):.0f} to {max(r.appends for r in rates):.0f})",
                f"{middle / alone:.2f}",
                f"{statistics.median(rate.servers for rate in rates):.2f}",
                f"{statistics.median(rate.writer for rate in rates):.2f}",
                f"{100 * statistics.median(rate.busy for rate in rates):.0f} %",
            )
    console.print(table)


async def play(folder: Path, options: argparse.Namespace) -> dict[Case, list[AppendRate]]:
    table = {"BARE": {"jetstream": "enabled", "users": [_USER]}}
    cluster = ServerCluster.prepare(folder / "servers", folder / "keys", table)
    await cluster.start()
    try:
        cases = [(number, lanes) for lanes in options.in_flight for number in options.streams]
        return await measure(cluster, cases, options.runs, options.rounds)
    finally:
        cluster.kill()


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-partitions-") as folder:
        found = asyncio.run(play(Path(folder), options))
    show(found, options.streams, options.in_flight)


if __name__ == "__main__":
    main(sys.argv[1:])
