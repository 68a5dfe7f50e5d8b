"""What a gatekeeper reads and remembers of a long history: every message once, and of a run that is over next to nothing."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import AsyncGenerator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.long_history import under_another_id
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.ledger_layout import Seen
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Message
from gatewright.contracts import RunsRequest, Transition
from gatewright.services.gatekeeper.projections import entries as ledger_entry
from gatewright.services.gatekeeper.projections.cancellations import CancellationBroadcaster
from gatewright.services.gatekeeper.projections.deadlines import Deadlines
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.services.gatekeeper.projections.stalled_runs import StalledRuns
from tests.attacks.whole_gatekeeper import open_gatekeeper
from tests.client.conftest import make_run, write_run
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.publishing import HandClock
from tests.gatekeeper.test_replicas import another
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

#: Bytes that are remembered of a run that is over: its id, who submitted it, when, and how it ended.
MOST_OF_A_RUN = 600
MANY = 100


class Counted(MemoryBus):
    """Counts the messages that are read of the ledger, run by run or as a whole."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.read = 0

    async def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        async for message in super().replay(subject, follow=follow, after=after):
            self.read += 1
            yield message


@cache
def one_run() -> tuple[Transition, ...]:
    return tuple(make_run().transitions)


def history_of(number: int) -> tuple[Transition, ...]:
    return under_another_id(one_run(), f"run-{number:020x}")


def history(runs: int) -> list[Transition]:
    return [step for number in range(runs) for step in history_of(number)]


async def test_a_start_reads_every_message_of_the_ledger_once(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where publishers have quotas, for which their runs are counted."""
    bus, decoded = Counted(MemoryServer()), 0
    await ensure_topology(bus)
    steps = history(30)
    await write_run(bus, steps)
    plain = ledger_entry.read_entry

    def read_entry(message: Message) -> ledger_entry.LedgerEntry | None:
        nonlocal decoded
        decoded += 1
        return plain(message)

    monkeypatch.setattr("gatewright.services.gatekeeper.projections.follower.read_entry", read_entry)
    async with open_gatekeeper(make_repository(), tmp_path) as gatekeeper:
        orchestrator = dataclasses.replace(another(gatekeeper.orchestrator, tmp_path), bus=bus)
        publishers = PublisherRuns(HandClock(), frozenset({"default"}))
        follower = LedgerFollower(orchestrator, publishers=publishers)
        await follower.resume()
    assert bus.read == decoded == len(steps)
    assert len(follower.index.page(RunsRequest(limit=100), lambda _: True).runs) == 30
    assert publishers.open("default") == frozenset()
    await bus.close()


def test_next_to_nothing_is_remembered_of_a_run_that_is_over() -> None:
    publishers = PublisherRuns(HandClock(), frozenset({"default"}))
    runs, deadlines, notices, index = StalledRuns(lambda: 1.0), Deadlines(), CancellationBroadcaster(), RunIndex()
    entries = [[make_entry(step) for step in history_of(number)] for number in range(2 * MANY)]
    tracemalloc.start()
    try:
        before = 0
        for number in range(2 * MANY):
            if number == MANY:
                before, _ = tracemalloc.get_traced_memory()
            for entry in entries[number]:
                publishers.saw(entry)
                deadlines.saw(entry)
                notices.saw(entry, 0.0)
                index.saw(entry)
                runs.saw(entry, 0.0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= MANY * MOST_OF_A_RUN
    assert (len(runs), len(deadlines), publishers.open("default")) == (0, 0, frozenset())
