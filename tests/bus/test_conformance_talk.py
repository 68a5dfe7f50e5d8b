"""Conformance of both backends: broadcasts, requests and services, and what a closed bus does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from gatewright.bus.port import Bus, Message, Reply
from gatewright.bus.topology import RESULT_CONSUMER
from gatewright.errors import BusError, DeniedError, MalformedError
from tests.bus.backends import ANY_TIME, Connect
from tests.waiting import PATIENCE

SUBJECT = "gw.submit"


async def ask(bus: Bus, data: bytes = b"{}", *, subject: str = SUBJECT, seconds: float = 3.0) -> Message:
    return await bus.request(subject, data, schema="run_request.v1", timeout=seconds)


async def test_a_broadcast_reaches_every_listener_and_is_not_stored(connect: Connect) -> None:
    heard: asyncio.Queue[tuple[str, Message]] = asyncio.Queue()
    for name in ("worker-1", "worker-2"):

        async def hear(message: Message, name: str = name) -> None:
            heard.put_nowait((name, message))

        await (await connect(name)).listen("gw.cancel", hear)
    await (await connect("gatekeeper")).broadcast("gw.cancel", b"run-1")
    got = [await asyncio.wait_for(heard.get(), PATIENCE) for _ in range(2)]
    assert {name for name, _ in got} == {"worker-1", "worker-2"}
    assert {(message.subject, message.data, message.sequence) for _, message in got} == {("gw.cancel", b"run-1", 0)}
    late = await connect("late")
    await late.listen("gw.cancel", lambda message: heard.put(("late", message)))
    await asyncio.sleep(0.1)
    assert heard.empty()


async def test_a_broadcast_without_listeners_is_no_error(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await bus.broadcast("gw.cancel", b"run-1")
    heard: asyncio.Queue[Message] = asyncio.Queue()
    await (await connect("late")).listen("gw.cancel", heard.put)
    await bus.broadcast("gw.cancel", b"run-2")
    assert (await asyncio.wait_for(heard.get(), PATIENCE)).data == b"run-2"


async def test_a_forged_broadcast_does_not_end_the_listening(connect: Connect) -> None:
    bus = await connect("worker")
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(message: Message) -> None:
        if message.data == b"garbage":
            raise MalformedError("not a cancel notice")
        heard.put_nowait(message.data)

    await bus.listen("gw.cancel", hear)
    await bus.broadcast("gw.cancel", b"garbage")
    await bus.broadcast("gw.cancel", b"run-1")
    assert await asyncio.wait_for(heard.get(), PATIENCE) == b"run-1"


async def test_a_request_is_answered_with_the_schema_of_the_reply(connect: Connect) -> None:
    seen: list[Message] = []

    async def submit(message: Message) -> Reply:
        seen.append(message)
        return Reply(b'{"run_id":"r"}', "submit_reply.v1")

    await (await connect("gatekeeper")).serve("gatekeeper", {SUBJECT: submit})
    reply = await ask(await connect("cli"), b"{1}")
    assert (reply.data, reply.headers["Gw-Schema"]) == (b'{"run_id":"r"}', "submit_reply.v1")
    assert [(message.subject, message.data, message.headers["Gw-Schema"]) for message in seen] == [
        (SUBJECT, b"{1}", "run_request.v1")
    ]


async def test_a_refusal_travels_with_its_reason(connect: Connect) -> None:
    async def refuse(message: Message) -> Reply:
        raise DeniedError("no\r\nway: ü", code="policy_says_no")

    await (await connect("gatekeeper")).serve("gatekeeper", {SUBJECT: refuse})
    with pytest.raises(BusError, match="no") as caught:
        await ask(await connect("cli"))
    assert caught.value.reason == "policy_says_no"


async def test_a_request_without_a_service_fails_immediately(connect: Connect) -> None:
    with pytest.raises(BusError) as caught:
        await ask(await connect("cli"), seconds=ANY_TIME)
    assert caught.value.reason == "bus_no_responders"


async def test_a_request_that_is_not_answered_in_time_fails(connect: Connect) -> None:
    async def sleep(message: Message) -> Reply:
        await asyncio.sleep(30)
        return Reply(b"", "submit_reply.v1")

    await (await connect("gatekeeper")).serve("gatekeeper", {SUBJECT: sleep})
    with pytest.raises(BusError) as caught:
        await ask(await connect("cli"), seconds=0.2)
    assert caught.value.reason == "bus_no_answer"


async def test_a_slow_request_does_not_hold_up_another(connect: Connect) -> None:
    release = asyncio.Event()

    async def submit(message: Message) -> Reply:
        if message.data == b"slow":
            await release.wait()
        return Reply(message.data, "submit_reply.v1")

    await (await connect("gatekeeper")).serve("gatekeeper", {SUBJECT: submit})
    cli = await connect("cli")
    slow = asyncio.create_task(ask(cli, b"slow"))
    assert (await ask(cli, b"quick")).data == b"quick"
    release.set()
    assert (await slow).data == b"slow"


async def test_a_reply_that_is_too_large_is_a_refusal(connect: Connect) -> None:
    async def submit(message: Message) -> Reply:
        return Reply(bytes(9 * 1024 * 1024), "submit_reply.v1")

    await (await connect("gatekeeper")).serve("gatekeeper", {SUBJECT: submit})
    cli = await connect("cli")
    for _ in range(2):
        with pytest.raises(BusError) as caught:
            await ask(cli)
        assert caught.value.reason == "message_too_large"


async def test_every_service_answers_a_ping_also_one_without_endpoints(connect: Connect) -> None:
    await (await connect("reviewer")).serve("reviewer", {})
    reply = await (await connect("cli")).request("$SRV.PING.reviewer", b"", schema="", timeout=PATIENCE)
    facts = json.loads(reply.data)
    assert (facts["name"], facts["type"]) == ("reviewer", "io.nats.micro.v1.ping_response")
    assert facts["version"]


async def test_a_service_ends_with_its_bus(connect: Connect) -> None:
    async def submit(message: Message) -> Reply:
        return Reply(b"", "submit_reply.v1")

    gatekeeper = await connect("gatekeeper")
    await gatekeeper.serve("gatekeeper", {SUBJECT: submit})
    await gatekeeper.close()
    with pytest.raises(BusError):
        await ask(await connect("cli"), seconds=0.5)


CALLS: list[Callable[[Bus], Awaitable[object]]] = [
    lambda bus: bus.publish("gw.run.r", b"", schema="s", message_id="m"),
    lambda bus: bus.consume(RESULT_CONSUMER),
    lambda bus: anext(bus.replay("gw.run.r")),
    lambda bus: bus.broadcast("gw.cancel", b""),
    ask,
    lambda bus: bus.serve("worker", {}),
    lambda bus: bus.put_artifact(b"data"),
    lambda bus: bus.get_artifact("artifact:sha256:" + 64 * "0"),
    lambda bus: bus.kv_get("key"),
    lambda bus: bus.kv_put("key", b"", revision=0),
]


async def test_a_closed_bus_refuses_every_call(connect: Connect) -> None:
    bus = await connect("worker")
    before = bus.connected
    await bus.close()
    await bus.close()
    assert [before, bus.connected] == [True, False]
    for call in CALLS:
        with pytest.raises(BusError):
            await call(bus)


async def test_closing_ends_the_wait_for_a_delivery(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    waiting = asyncio.create_task((await bus.consume(RESULT_CONSUMER)).next(30))
    await asyncio.sleep(0.1)
    await bus.close()
    with pytest.raises(BusError):
        await asyncio.wait_for(waiting, 3)
