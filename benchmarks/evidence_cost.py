"""What evidence adds to a small run: appending its events while it goes on, and sealing its bundle at the end.

A real run is taken from the ledger and written again with the gatekeeper's own writer, beside the bare work of one fsync an
event, in turns. `make bench` prints it; alone it starts a stack of its own.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.workload import make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.evidence import event_log
from gatewright.evidence.projection.screening import ScreenedArtifacts
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger, Position
from gatewright.secrets.scanner import SecretScanner
from gatewright.secrets.selection import DEFAULT_SCANNER, make_scanner
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache

#: Milliseconds that evidence may add to a small run.
BUDGET = 30.0
SAMPLES = 30
WARM_UP = 3
LIVE = 10


@dataclass
class EvidenceCost:
    """Seconds, one entry a sample. ``live``: from a run's end to its sealed bundle, in the gatekeeper as it runs."""

    events: int = 0
    appending: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    sealing: list[float] = field(default_factory=list)
    live: list[float] = field(default_factory=list)

    def lines(self) -> Sequence[str]:
        """For people: what it adds, and the ratio of appending to the bare fsyncs."""
        appending, sealing, bare, live = (
            statistics.median(values) * 1000 for values in (self.appending, self.sealing, self.bare, self.live)
        )
        added = appending + sealing
        verdict = "reached" if added <= BUDGET else "NOT reached"
        first = f"(e) evidence adds {added:.0f} ms to a run: appending {appending:.1f}, sealing {sealing:.1f}"
        second = f"    {self.events} events appended in {appending:.1f} ms, with one fsync each {bare:.1f} ms"
        return (
            f"{first} (budget {BUDGET:.0f}: {verdict}); from the end of a live run to its sealed bundle {live:.0f} ms",
            f"{second}: ratio {appending / bare:.2f} (at most 1)",
        )


async def measure(client: Client, run_id: str, folder: Path) -> EvidenceCost:
    """Write the evidence of an ended run again, and the bare work beside it, in turns."""
    position = await Ledger(client.bus).load(run_id)
    signer = Signer(keys.create(folder / "key.pem"))
    artifacts, scanner = ArtifactCache(client.bus), make_scanner(DEFAULT_SCANNER, folder / "rules")
    scanner.prepare()
    cost = EvidenceCost()
    for number in range(WARM_UP + SAMPLES):
        root = folder / str(number)
        appending = await _append(root, position)
        bare = _bare(root, position)
        sealing = await _seal(root, position, artifacts, scanner, signer)
        if number >= WARM_UP:
            cost.appending.append(appending)
            cost.bare.append(bare)
            cost.sealing.append(sealing)
    cost.events = sum(len(transition.events) for transition in position.transitions)
    return cost


async def live(client: Client, run_ids: Sequence[str]) -> list[float]:
    """Seconds from the end of runs to their seal, by the times of their events."""
    found = []
    for run_id in run_ids:
        times = {event.event_type: datetime.fromisoformat(event.ts) for event in await client.events(run_id)}
        found.append((times["bundle_sealed"] - times["run_finished"]).total_seconds())
    return found


async def _append(root: Path, position: Position) -> float:
    writer, run = BundleWriter(root), position.run
    assert run is not None
    started = time.perf_counter()
    for transition in position.transitions:
        await writer.append(run, transition.events)
    return time.perf_counter() - started


def _bare(root: Path, position: Position) -> float:
    lines = [event_log.line(event) for transition in position.transitions for event in transition.events]
    started = time.perf_counter()
    with (root / "bare.jsonl").open("ab") as file:
        for line in lines:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - started


async def _seal(root: Path, position: Position, artifacts: ArtifactCache, scanner: SecretScanner, signer: Signer) -> float:
    run = position.run
    assert run is not None
    screened = ScreenedArtifacts(artifacts, run, scanner)
    started = time.perf_counter()
    await BundleWriter(root).seal(run, position.transitions, screened, signer, position.sequences)
    return time.perf_counter() - started


async def one_cost(client: Client, repository: Path, folder: Path, first: int) -> EvidenceCost:
    """Runs on a running stack, and what their evidence cost."""
    run_ids = []
    for number in range(first, first + LIVE):
        run_ids.append(await client.submit_request(make_request(repository, number), patience=5.0))
        await succeeded(client, run_ids[-1])
    cost = await measure(client, run_ids[-1], folder)
    cost.live = await live(client, run_ids)
    return cost


async def alone() -> EvidenceCost:
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as name:
        root = Path(name)
        repository, home = make_repository(root / "repository"), root / "home"
        make_home(home)
        stack = Supervisor(StackOptions(home=home, base_environment={"PATH": os.environ["PATH"]}, workers=2, shared=True))
        await stack.start()
        try:
            await stack.ready(30.0)
            async with Client.connect(stack.address) as client:
                (root / "evidence").mkdir()
                return await one_cost(client, repository, root / "evidence", 0)
        finally:
            await stack.stop()


if __name__ == "__main__":
    print("\n".join(asyncio.run(alone()).lines()))
