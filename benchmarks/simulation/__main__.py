"""``python -m benchmarks.simulation --runs 3000 --workers 10000``: what became of the runs, and what it took."""

from __future__ import annotations

import argparse
import gc
import resource
import signal
import sys
import time
from collections.abc import Sequence
from statistics import mean

from benchmarks.simulation.economy import LoopWithoutWaiting
from benchmarks.simulation.world import Outcome, Scenario, World

#: Runs between two reports of progress, and between two collections of reference cycles.
REPORTED, COLLECTED = 1_000, 25_000


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=3_000)
    words.add_argument("--workers", type=int, default=10_000)
    words.add_argument("--gatekeepers", type=int, default=120)
    words.add_argument("--others", type=int, default=2_000, help="processes of each other role")
    words.add_argument("--arrivals", type=float, default=300.0, help="runs a second")
    words.add_argument("--worker-dies", type=float, default=0.01, help="chance for each task")
    words.add_argument("--answer-doubled", type=float, default=0.005, help="chance for each task")
    words.add_argument("--gatekeeper-dies", type=float, default=0.001, help="chance for each input")
    words.add_argument("--large", type=int, default=24, help="parts of a large run")
    words.add_argument("--large-every", type=int, default=100, help="one run in so many is large")
    words.add_argument("--flood", type=float, default=0.0, help="part of all runs, 0 to 1, that come from one repository")
    words.add_argument("--partitions", type=int, default=1, help="streams that the ledger lies in")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--read-every", type=int, default=100, help="one run in so many is read back from its bytes")
    scenario = Scenario(**vars(words.parse_args()))
    # Little here goes in circles; looking for it among all open runs again and again would be a third of the work.
    gc.disable()
    world = World(scenario)
    before = time.process_time()
    outcome = run(world)
    sys.stdout.write(table(scenario, outcome, time.process_time() - before))
    return 1 if outcome.lost or outcome.doubled else 0


def run(world: World) -> Outcome:
    """Play it to its end, or until it is interrupted; report progress and the most memory every ``REPORTED`` runs."""

    def stop(*_: object) -> None:
        world.stopped = True

    loop = LoopWithoutWaiting()
    world.progress = report
    signal.signal(signal.SIGINT, stop)
    try:
        return loop.run_until_complete(world.play())
    finally:
        loop.close()


def report(outcome: Outcome) -> None:
    over = outcome.landed + outcome.failed
    if over % REPORTED == 0:
        if over % COLLECTED == 0:
            gc.collect()
        sys.stderr.write(f"{over} runs over, {time.process_time():.0f} s, {most_memory()} MB\n")


def late(waits: Sequence[float]) -> float:
    """The wait that 99 of 100 tasks do not exceed."""
    return sorted(waits)[len(waits) * 99 // 100]


def most_memory() -> int:
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def table(scenario: Scenario, outcome: Outcome, spent: float) -> str:
    """What a person reads, and the documentation has."""
    rows = [
        ("runs, workers, gatekeepers", f"{scenario.runs}, {scenario.workers}, {scenario.gatekeepers}"),
        ("landed, failed, lost, doubled", f"{outcome.landed}, {outcome.failed}, {outcome.lost}, {outcome.doubled}"),
        *([("not over when it was stopped", str(outcome.open))] if outcome.open else []),
        ("deaths", ", ".join(f"{number} {what}" for what, number in sorted(outcome.deaths.items()))),
        ("messages stored, repetitions not stored", f"{outcome.messages}, {outcome.repeated}"),
        ("inputs that came after a run was audited, a minute after its seal", str(outcome.too_late)),
        ("transitions that another gatekeeper wrote first", str(outcome.conflicts)),
        ("workers' time with a task in hand, until the last run came", f"{100 * outcome.worked / outcome.offered:.1f} %"),
        *(
            (
                f"seconds until a task began, mean, 99th of 100, longest: {kind}",
                f"{mean(waits):z.1f}, {late(waits):z.1f}, {max(waits):z.1f}",
            )
            for kind, waits in outcome.waits.items()
            if waits
        ),
        ("simulated seconds", f"{outcome.seconds:.0f}"),
        ("times a run was read back from its bytes, as it was written", str(outcome.read_back)),
        ("processor seconds, runs in each", f"{spent:.0f}, {(outcome.landed + outcome.failed) / spent:.0f}"),
        ("most memory", f"{most_memory()} MB"),
    ]
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


if __name__ == "__main__":
    raise SystemExit(main())
