"""A run that stands still says what it waits for and since when, on every display; nothing is guessed."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from gatewright.app.cli.run.display import Display, JsonDisplay, LiveDisplay, PlainDisplay
from gatewright.app.cli.run.following import events_to_the_seal, follow_to_end
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.waits import Wait, WaitFinder, queue_waits
from gatewright.bus.jetstream import queue_control
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_control import QueueState
from gatewright.bus.jetstream.queue_depths import QueueDepth
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import Consumer, task_consumer
from gatewright.client import Client
from gatewright.errors import UnavailableError
from gatewright.run.state import Run
from gatewright.view.run_view import RunView, view_of
from tests.cli.conftest import Command
from tests.client.conftest import write_run
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script, SimulatedRun
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE

WORKER = task_consumer("worker")


def run_until(reached: Callable[[Run], bool], script: Script | None = None) -> SimulatedRun:
    simulated = SimulatedRun(script or Script())
    while simulated.run is None or not reached(simulated.run):
        simulated.deliver(simulated.under_way.pop(0))
    return simulated


def at_work() -> SimulatedRun:
    """A run whose worker has been given its task."""
    return run_until(lambda run: any(task.status == "RUNNING" for task in run.workers()))


def view_after(simulated: SimulatedRun) -> RunView:
    view = view_of(event for transition in simulated.transitions for event in transition.events)
    assert view is not None
    return view


def depth(queue: Consumer, *, waiting: int = 0, in_hand: int = 0, pulls: int = 0, until: datetime | None = None) -> QueueState:
    return QueueState(QueueDepth(queue, waiting, in_hand, pulls, until is not None, 90.0), until)


@pytest.fixture
async def bus(gatewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JetStreamBus]:
    """The bus that the commands use, on which no role runs."""
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        monkeypatch.setenv("GATEWRIGHT_NATS_URL", server.url)
        connected = await JetStreamBus.connect(server.url, name="operator")
        yield connected
        await connected.close()


def test_locked_paths_show_the_other_run_and_since_when() -> None:
    view = view_after(run_until(lambda run: run.waiting_for_locks, Script(lock_refusals=1)))
    (wait,) = asyncio.run(WaitFinder(MemoryBus(MemoryServer()), None).waits_of(view))
    assert (wait.kind, wait.detail) == ("locks", "for paths that are locked by run-other0000")
    assert wait.since == view.run.at


def test_only_an_unserved_or_paused_queue_is_reported() -> None:
    (wait,) = queue_waits([depth(WORKER, waiting=1)], NOW)
    assert (wait.kind, wait.since) == ("no_process", "2026-01-01T23:58:30.000Z")
    assert "no process of the worker asks for what lies in worker-default-normal" in wait.detail
    (paused,) = queue_waits([depth(WORKER, waiting=1, in_hand=1, until=NOW + timedelta(hours=1))], NOW)
    assert paused.kind == "queue_paused"
    assert "until 2026-01-02T01:00:00.000Z; `gatewright queue resume worker` ends that" in paused.detail
    urgent = task_consumer("worker", "default", "high")
    for served in ([depth(WORKER, waiting=1, in_hand=1)], [depth(WORKER, waiting=1), depth(urgent, pulls=1)], [depth(WORKER)]):
        assert queue_waits(served, NOW) == ()


def test_a_full_disk_of_this_host_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise UnavailableError(f"{folder}: 3 MiB are free", code="disk_full")

    monkeypatch.setattr("gatewright.app.cli.runs.waits.check_room", full)
    view = view_after(at_work())
    bus = MemoryBus(MemoryServer())
    assert [wait.kind for wait in asyncio.run(WaitFinder(bus, tmp_path).waits_of(view))] == ["disk_full"]
    assert asyncio.run(WaitFinder(bus, None).waits_of(view)) == ()


async def test_a_list_of_runs_names_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise UnavailableError(f"{folder}: 3 MiB are free", code="disk_full")

    monkeypatch.setattr("gatewright.app.cli.runs.waits.check_room", full)
    source = LedgerSource(Client(MemoryBus(MemoryServer())), tmp_path)
    assert [wait.kind for wait in await source.system_waits()] == ["disk_full"]


async def test_a_broken_connection_is_reported_until_it_returns(bus: JetStreamBus) -> None:
    view, finder = view_after(at_work()), WaitFinder(bus, None)
    await bus.connection._on_disconnect()
    (wait,) = await finder.waits_of(view)
    assert (wait.kind, wait.since) == ("no_bus", bus.connection.away_since)
    await bus.connection._on_disconnect()
    assert wait.since == bus.connection.away_since
    await bus.connection._on_reconnect()
    assert [wait.kind for wait in await finder.waits_of(view)] != ["no_bus"]


@pytest.mark.long
async def test_show_reports_a_missing_worker_and_a_paused_queue(bus: JetStreamBus, gatewright: Command) -> None:
    await write_run(bus, at_work().transitions)
    await bus.publish(WORKER.subject, b"a task", schema="task_contract.v1", message_id="task-1")
    shown = (await asyncio.to_thread(gatewright, "show", RUN_ID, "--json")).documents[0]
    assert [wait["kind"] for wait in shown["waits"]] == ["no_process"]
    await queue_control.pause(bus.connection, WORKER, 600.0)
    shown = (await asyncio.to_thread(gatewright, "show", RUN_ID, "--json")).documents[0]
    assert [wait["kind"] for wait in shown["waits"]] == ["queue_paused"]
    said = (await asyncio.to_thread(gatewright, "show", RUN_ID)).out
    assert "the queue worker-default-normal is paused until" in said


@pytest.mark.parametrize("json_output", [True, False])
async def test_following_a_stalled_run_shows_why_and_continues_with_it(
    bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch, json_output: bool
) -> None:
    told: asyncio.Queue[tuple[Wait, ...]] = asyncio.Queue()

    class Told(JsonDisplay if json_output else PlainDisplay):  # type: ignore[misc] # either is a display
        def waits(self, view: RunView, waits: tuple[Wait, ...]) -> None:
            super().waits(view, waits)
            told.put_nowait(waits)

    monkeypatch.setattr("gatewright.app.cli.run.following.make_display", lambda **_: Told())
    simulated = at_work()
    await write_run(bus, simulated.transitions)
    written = len(simulated.transitions)
    await bus.publish(WORKER.subject, b"a task", schema="task_contract.v1", message_id="task-1")
    async with asyncio.timeout(PATIENCE):
        following = asyncio.create_task(follow_to_end(Client(bus, requested_by="t"), RUN_ID, None, json_output=json_output))
        assert [wait.kind for wait in await told.get()] == ["no_process"]
        while simulated.under_way:
            simulated.deliver(simulated.under_way.pop(0))
        await write_run(bus, simulated.transitions[written:])
        assert await following == 0


async def not_sealed(home: Path | None, patience: float, longest: float) -> str:
    """What is said of a run that has ended and whose bundle is not sealed."""
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    ended = run_until(lambda run: run.ended)
    sealed = {"bundle_sealed"}
    await write_run(bus, [each for each in ended.transitions if sealed.isdisjoint(event.event_type for event in each.events)])
    with pytest.raises(UnavailableError) as refused:
        async for _ in events_to_the_seal(Client(bus, requested_by="t"), RUN_ID, home, patience, longest):
            pass
    assert refused.value.reason == "bundle_not_sealed"
    return refused.value.message


async def test_seal_that_does_not_come_is_no_full_disk(tmp_path: Path) -> None:
    assert "disk" not in await not_sealed(tmp_path, patience=0.01, longest=0.03)
    assert "The log of the gatekeeper names the cause" in await not_sealed(None, patience=0.01, longest=0.03)


async def test_seal_is_not_waited_for_on_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise UnavailableError(f"{folder}: 3 MiB are free", code="disk_full")

    monkeypatch.setattr("gatewright.app.cli.run.following.check_room", full)
    assert "3 MiB are free" in await not_sealed(tmp_path, patience=0.01, longest=1e9)


@pytest.mark.parametrize("kind", ["json", "plain", "live"])
def test_every_display_shows_what_a_run_waits_for(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200)
    displays: dict[str, Display] = {"json": JsonDisplay(), "plain": PlainDisplay(), "live": LiveDisplay(console)}
    display = displays[kind]
    view = view_after(at_work())
    wait = Wait("queue_paused", datetime.now(UTC).isoformat(), "the queue x is \x1b[31mpaused")
    display.waits(view, (wait,))
    if isinstance(display, LiveDisplay):
        console.print(display._below())
    said = screen.getvalue() + capsys.readouterr().out
    assert "queue x is" in said
    assert "\x1b[31mpaused" not in said
