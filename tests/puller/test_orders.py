"""The puller's desk: equal orders share their work, work is bounded, and a sender that leaves costs nothing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Note
from gatewright.app.puller import orders
from gatewright.app.puller.orders import OrderDesk, PullerSettings
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.memory.server import MemoryServer
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import SCHEMA_HEADER, Message, Reply
from gatewright.client import client as clients
from gatewright.client.client import Client
from gatewright.client.refusals import decode_answer, error_document, reply
from gatewright.contracts import EnvironmentOrder, EnvironmentResult, codec
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.errors import BusError, GatewrightError, LimitError, MalformedError, UnavailableError
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics

MADE = (OrderedEnvironment(prefix="/srv/environments/a"),)
SUBJECT = publisher_subjects("default")["environment"]


def order(*commands: str) -> EnvironmentOrder:
    return EnvironmentOrder(commands=commands, files=())


def message(*commands: str, publisher: str = "default") -> Message:
    return Message(publisher_subjects(publisher)["environment"], codec.encode(order(*commands)))


def result_of(reply: Reply) -> EnvironmentResult:
    """The document of a reply; raises the error that it is."""
    return decode_answer(Message("", reply.data, {SCHEMA_HEADER: reply.schema}), EnvironmentResult)


class Work:
    """Work that lasts until it is let go. ``begun``: the first command of each."""

    def __init__(self, error: GatewrightError | None = None) -> None:
        self.begun: list[str] = []
        self.started, self.go, self.error = asyncio.Event(), asyncio.Event(), error
        self.ended = 0

    async def __call__(self, order: EnvironmentOrder, note: Note) -> tuple[OrderedEnvironment, ...]:
        self.begun.append(order.commands[0])
        self.started.set()
        note("preparing")
        try:
            await self.go.wait()
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return MADE


def desk(
    fill: Callable[[EnvironmentOrder, Note], Awaitable[tuple[OrderedEnvironment, ...]]],
    hold: float = 0.0,
    metrics: Metrics | None = None,
) -> OrderDesk:
    return OrderDesk(fill, 1, make_logger(level="error"), metrics or Metrics("puller"), hold=hold)


async def test_equal_orders_at_once_are_carried_out_once() -> None:
    work = Work()
    served = desk(work, hold=60)
    answers = [asyncio.create_task(served.answer(message("a", publisher=name))) for name in ("default", "ci")]
    await work.started.wait()
    work.go.set()
    results = [result_of(await each) for each in answers]
    assert work.begun == ["a"]
    assert [each.environments for each in results] == [MADE, MADE]
    assert results[0].order_sha256 == hashlib.sha256(message("a").data).hexdigest()


async def test_an_order_that_lasts_is_answered_with_its_progress() -> None:
    work = Work()
    served = desk(work)
    while not work.begun:
        await served.answer(message("a"))
    running = result_of(await served.answer(message("a")))
    assert (running.state, running.notes) == ("PREPARING", ("preparing",))
    await served.close()


async def test_orders_beyond_the_concurrency_wait_for_their_turn() -> None:
    work = Work()
    served = desk(work)
    while not work.begun:
        await served.answer(message("a"))
    while not (second := result_of(await served.answer(message("b")))).notes:
        pass
    assert second.notes == ("waiting for other orders of environments",)
    assert work.begun == ["a"]
    await served.close()


async def test_a_failure_is_reported_and_the_next_order_tries_again() -> None:
    work = Work(NotPreparedError("pip ended with 1"))
    work.go.set()
    served = desk(work, hold=60)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="pip ended with 1") as refused:
            result_of(await served.answer(message("a")))
        assert refused.value.reason == "environment_not_prepared"
    assert work.begun == ["a", "a"]


async def test_a_sender_that_leaves_ends_no_work() -> None:
    work = Work()
    served = desk(work, hold=60)
    leaving = asyncio.create_task(served.answer(message("a")))
    await work.started.wait()
    leaving.cancel()
    staying = asyncio.create_task(served.answer(message("a")))
    await asyncio.sleep(0)
    work.go.set()
    assert result_of(await staying).environments == MADE
    assert work.begun == ["a"]


async def test_one_publisher_cannot_take_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "MOST_OF_PUBLISHER", 2)
    monkeypatch.setattr(orders, "MOST_ORDERS", 3)
    served = desk(Work())
    for each in ("a", "b"):
        result_of(await served.answer(message(each, publisher="ci")))
    with pytest.raises(LimitError) as refused:
        result_of(await served.answer(message("c", publisher="ci")))
    assert (refused.value.reason, refused.value.retry_after) == ("service_busy", 10.0)
    result_of(await served.answer(message("a", publisher="ci")))  # a known order needs no further place
    result_of(await served.answer(message("c")))
    with pytest.raises(LimitError):
        result_of(await served.answer(message("d")))
    await served.close()


async def test_the_end_of_the_puller_ends_its_work() -> None:
    work = Work()
    served = desk(work, hold=60)
    waiting = asyncio.create_task(served.answer(message("a")))
    await work.started.wait()
    await served.close()
    assert work.ended == 1
    with pytest.raises(UnavailableError) as refused:
        result_of(await waiting)
    assert refused.value.reason == "service_stopping"


@pytest.mark.parametrize("data", [b"{", b'{"commands": ["a"], "files": [], "registry": "https://evil.example"}'])
async def test_what_is_no_order_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        result_of(await desk(Work()).answer(Message(SUBJECT, data)))


async def client_of(*replies: Reply | GatewrightError) -> Client:
    """A client on a bus whose puller gives these replies in turn."""
    bus, left = MemoryBus(MemoryServer()), list(replies)

    async def answer(_message: Message) -> Reply:
        given = left.pop(0)
        if isinstance(given, GatewrightError):
            raise given
        return given

    await bus.serve("gw-puller", {SUBJECT: answer} if replies else {})
    return Client(bus)


def answered(state: str, *notes: str, of: str = "a") -> Reply:
    document = {"order_sha256": hashlib.sha256(message(of).data).hexdigest(), "state": state, "notes": notes}
    return Reply(codec.encode(codec.decode(clients.json_of(document), EnvironmentResult)), "environment_result.v1")


async def test_a_sender_repeats_its_order_and_notes_progress_once() -> None:
    busy = BusError("try again", code="service_busy")
    client = await client_of(answered("PREPARING", "one"), busy, answered("PREPARING", "one", "two"), answered("READY", "one"))
    noted: list[str] = []
    result = await client.order_environments(order("a"), noted.append)
    assert result.state == "READY"
    assert noted == ["one", "two"]


async def test_the_answer_to_another_order_is_refused() -> None:
    client = await client_of(answered("READY", of="b"))
    with pytest.raises(UnavailableError, match="another order"):
        await client.order_environments(order("a"), lambda _: None)


@pytest.mark.parametrize("replies", [(), (BusError("gone", code="bus_no_answer"),)])
async def test_without_a_puller_the_order_fails_with_advice(
    monkeypatch: pytest.MonkeyPatch, replies: tuple[GatewrightError, ...]
) -> None:
    monkeypatch.setattr(clients, "ORDER_PATIENCE", 0.0)
    monkeypatch.setattr(clients, "RESTART_PATIENCE", 0.0)
    client = await client_of(*replies)
    with pytest.raises(UnavailableError) as refused:
        await client.order_environments(order("a"), lambda _: None)
    assert refused.value.reason == "puller_missing"


async def test_a_sender_waits_for_a_puller_that_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "ORDER_PATIENCE", 0.0)
    monkeypatch.setattr(clients, "PASSING_PAUSE", 0.0)
    stopping = reply(error_document(UnavailableError("it ends", code="service_stopping")))
    gone = BusError("gone", code="bus_no_responders")
    silent = BusError("silent", code="bus_no_answer")
    client = await client_of(silent, gone, answered("PREPARING"), stopping, gone, gone, gone, gone, answered("READY"))
    assert (await client.order_environments(order("a"), lambda _: None)).state == "READY"


@pytest.mark.parametrize(("error", "outcome"), [(None, "answered"), (LimitError("full", code="service_busy"), "refused")])
async def test_an_order_is_counted_as_a_task_of_the_puller(error: GatewrightError | None, outcome: str) -> None:
    metrics, work = Metrics("puller"), Work(error)
    served = desk(work, hold=60, metrics=metrics)
    answer = asyncio.create_task(served.answer(message("a")))
    await work.started.wait()
    assert metrics.registry.get_sample_value("gatewright_tasks_running", {"role": "puller"}) == 1
    work.go.set()
    await answer
    counted = {"role": "puller", "outcome": outcome}
    assert metrics.registry.get_sample_value("gatewright_tasks_total", counted) == 1
    assert metrics.registry.get_sample_value("gatewright_task_duration_seconds_count", {"role": "puller"}) == 1
    assert metrics.registry.get_sample_value("gatewright_tasks_running", {"role": "puller"}) == 0


async def test_orders_that_a_stopped_puller_ends_are_counted() -> None:
    metrics, work = Metrics("puller"), Work()
    served = desk(work, metrics=metrics)
    while not work.begun:
        await served.answer(message("a"))
    await served.close()
    assert metrics.registry.get_sample_value("gatewright_tasks_total", {"role": "puller", "outcome": "cancelled"}) == 1


async def test_a_changed_policy_applies_to_the_next_order(tmp_path: Path) -> None:
    settings = PullerSettings(home=tmp_path / "home", policies=tmp_path)
    policy, codes = tmp_path / "egress.json", []
    for text in (None, '{"version": "2"}', '{"version": "1", "sources": []}', "{"):
        if text is not None:
            policy.write_text(text)
        try:
            await orders._fill(settings, make_logger(level="error"), order("true"), print)
            codes.append("")
        except GatewrightError as error:
            codes.append(error.reason)
    assert codes == ["egress_policy_missing", "configuration_invalid", "", "configuration_invalid"]
