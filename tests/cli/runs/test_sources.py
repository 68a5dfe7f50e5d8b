"""Looking for runs: what is read of the ledger for one run is that run's own, however many others there are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.cli.runs import sources
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.listing import run_details, run_entry, run_story
from gatewright.app.cli.runs.sources import BundleSource, find_run
from gatewright.app.feed.link import read_once
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import RUNS_SUBJECT, run_subject
from gatewright.client import Client
from gatewright.contracts import RunList, RunsRequest, codec
from gatewright.contracts.run_status import ClaimedTask, ListedRun
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import MalformedError
from tests.cli.conftest import Command
from tests.client.conftest import make_run, write_run
from tests.gatekeeper.budgeted_run import BudgetedRun
from tests.gatekeeper.simulated_run import RUN_ID, Script

BEGUN = sources._begun_at
OTHERS = tuple(f"run-{number:020x}" for number in range(200))


class Watched(MemoryBus):
    """Remembers which subjects were replayed."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.replayed: list[str] = []

    def replay(self, subject: str, **options: Any) -> AsyncGenerator[Message, None]:
        self.replayed.append(subject)
        return super().replay(subject, **options)


async def listing(bus: MemoryBus, known: tuple[str, ...] = (RUN_ID, *OTHERS)) -> None:
    """A gatekeeper that knows which runs there are, the newest first."""

    async def answer(message: Message) -> Reply:
        request = codec.decode(message.data, RunsRequest)
        begun = known[known.index(request.before) + 1 :] if request.before else known
        found = [run_id for run_id in begun if run_id.startswith(request.prefix or "")]
        page = tuple(
            ListedRun(run_id=run_id, publisher="default", status="RUNNING", created_at="2026-01-01T00:00:00Z")
            for run_id in found[: request.limit]
        )
        document = RunList(runs=page, more=len(found) > request.limit)
        return Reply(codec.encode(document), "run_list.v1")

    await bus.serve("gw-gatekeeper", {RUNS_SUBJECT: answer})


@pytest.fixture
async def bus() -> Watched:
    bus = Watched(MemoryServer())
    await ensure_topology(bus)
    await write_run(bus, make_run().transitions)
    return bus


async def test_one_run_is_shown_without_reading_any_other(bus: Watched) -> None:
    source = LedgerSource(Client(bus))
    await listing(bus)
    for wanted in (RUN_ID, RUN_ID[:12], RUN_ID.removeprefix("run-")[:8], None):
        bus.replayed.clear()
        view = await source.view(await find_run(source, wanted))
        assert view.run.run_id == RUN_ID
        assert set(bus.replayed) == {run_subject(RUN_ID)}


async def test_a_beginning_that_several_runs_have_is_ambiguous(bus: Watched) -> None:
    await listing(bus)
    with pytest.raises(MalformedError) as caught:
        await find_run(LedgerSource(Client(bus)), "run-000000")
    assert caught.value.reason == "run_ambiguous"
    assert bus.replayed == []


async def test_a_page_reads_its_own_runs_alone(bus: Watched) -> None:
    await listing(bus)
    page = await LedgerSource(Client(bus)).page(5, None)
    assert ([run.run_id for run in page.runs], page.more) == ([RUN_ID], True)
    assert set(bus.replayed) == {run_subject(run_id) for run_id in (RUN_ID, *OTHERS[:4])}


async def test_an_open_run_behind_pages_of_newer_ones_is_found() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    await write_run(bus, world.transitions)
    await listing(bus, (*OTHERS, *(f"run-{number:020x}" for number in range(1000, 1300)), RUN_ID))
    assert [run.run_id for run in (await LedgerSource(Client(bus)).open_runs()).runs] == [RUN_ID]


async def test_program_lists_and_the_board_agree_on_claimed_tasks() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    await write_run(bus, world.transitions)
    task = world.opened.workers()[0]
    claimed = ListedRun(
        run_id=RUN_ID,
        publisher="default",
        status="RUNNING",
        created_at="2026-01-01T00:00:00Z",
        silent_since="2026-01-02T00:00:00Z",
        claimed=(ClaimedTask(task_id=task.task_id, process="P1"),),
    )

    async def answer(_message: Message) -> Reply:
        return Reply(codec.encode(RunList(runs=(claimed,), more=False)), "run_list.v1")

    await bus.serve("gw-gatekeeper", {RUNS_SUBJECT: answer})
    client = Client(bus)
    source = LedgerSource(client)
    page = await source.page(5, None)
    row = (await read_once(client)).board.rows[RUN_ID]
    (entry,) = (run_entry(view, page.claims) for view in page.views)
    (view,) = page.views
    claims = await source.claims(RUN_ID)
    assert entry == run_details(view, claims=claims).run
    assert entry.in_hand == row.in_hand
    assert [(each.task_id, each.process) for each in entry.in_hand] == [(task.task_id, "P1")]
    assert entry.in_hand[0].since == view.dispatched[task.task_id]
    assert entry.silent_since == "2026-01-02T00:00:00Z"
    (line,) = [line for line in run_story(view, claims=claims) if "process P1" in line]
    assert "since" in line
    assert [each.process for each in run_entry(view).in_hand] == [""]


async def test_without_a_gatekeeper_the_ledger_itself_is_read(bus: Watched) -> None:
    source = LedgerSource(Client(bus))
    assert [run.run_id for run in (await source.page(5, None)).runs] == [RUN_ID]
    assert await find_run(source, RUN_ID[:10]) == RUN_ID
    with pytest.raises(MalformedError):
        await source.page(5, "run-unknown")


def make_bundle(folder: Path, name: str, when: str) -> None:
    (folder / name).mkdir(parents=True)
    events = (event for transition in make_run().transitions for event in transition.events)
    lines = [codec.encode(event) for event in events if event.event_type != "bundle_sealed"]
    text = b"\n".join(lines).replace(b"2026-", when.encode()).replace(RUN_ID.encode(), name.encode())
    (folder / name / "events.jsonl").write_bytes(text + b"\n")


def test_bundles_are_listed_by_pages_newest_last(gatewright: Command, tmp_path: Path) -> None:
    folder = tmp_path / ".gatewright" / "runs"
    for number in range(4):
        make_bundle(folder, f"run-{number}aaaaaaa", f"202{number}-")
    said = gatewright("runs", "--limit", "3", "--json").documents[0]
    assert (len(said["runs"]), said["more"]) == (3, True)
    assert [run["created_at"][:4] for run in said["runs"]] == ["2021", "2022", "2023"]
    older = gatewright("runs", "--before", "run-1aaaaaaa", "--json").documents[0]
    assert ([run["created_at"][:4] for run in older["runs"]], older["more"]) == (["2020"], False)
    source = BundleSource(tmp_path / ".gatewright", lambda _words: None)
    assert asyncio.run(find_run(source, None)) == "run-3aaaaaaa"
    assert asyncio.run(find_run(source, "2aaa")) == "run-2aaaaaaa"


def test_of_many_bundles_no_more_are_opened_than_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".gatewright" / "runs"
    for number in range(30):
        make_bundle(folder, f"run-{number:02}aaaaaaa", f"20{number:02}-")
        written = datetime(2000 + number, 12, 31, tzinfo=UTC).timestamp()
        os.utime(folder / f"run-{number:02}aaaaaaa" / "events.jsonl", (written, written))
    opened: list[Path] = []

    def begun(bundle: Path) -> float:
        opened.append(bundle)
        return BEGUN(bundle)

    monkeypatch.setattr(sources, "_begun_at", begun)
    source = BundleSource(tmp_path / ".gatewright", lambda _words: None)
    assert asyncio.run(find_run(source, "29a")) == "run-29aaaaaaa"
    assert len(opened) == 1
    opened.clear()
    asyncio.run(source.page(3, None))
    assert len(opened) <= 5


@pytest.mark.parametrize("given", ["/no/such/folder", "../outside", "runs/"])
def test_a_folder_that_is_not_there_is_no_run_and_no_defect(gatewright: Command, given: str) -> None:
    said = gatewright("verify", given, "--json")
    assert (said.exit_code, said.documents[-1]["error"]["code"]) == (2, "run_unknown")
