"""Conformance of both backends: storing, dedupe, optimistic concurrency, replay."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing

import pytest

from gatewright.bus.port import SCHEMA_HEADER, TRACE_HEADER, Bus, Message, PublishAck
from gatewright.bus.subjects import HEADER_BYTES, MAX_MESSAGE_BYTES
from gatewright.bus.topology import STREAMS
from gatewright.errors import ConflictError, MalformedError
from tests.bus.backends import Backend, Connect
from tests.waiting import PATIENCE

RUN = "gw.run.run-00000001"


async def append(bus: Bus, data: bytes, expected: int | None = None, *, subject: str = RUN, message_id: str = "") -> PublishAck:
    return await bus.publish(
        subject,
        data,
        schema="transition.v1",
        message_id=message_id or f"{subject}:{data!r}",
        expected_subject_sequence=expected,
    )


async def read(bus: Bus, subject: str = RUN) -> list[Message]:
    return [message async for message in bus.replay(subject)]


async def test_a_stored_message_is_replayed_with_its_headers_and_sequence(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ack = await bus.publish(RUN, b"{}", schema="transition.v1", message_id="m-1", headers={TRACE_HEADER: trace})
    assert (ack.stream, ack.sequence, ack.duplicate) == ("RUNS", 1, False)
    (message,) = await read(bus)
    assert (message.subject, message.data, message.sequence) == (RUN, b"{}", 1)
    assert message.headers[SCHEMA_HEADER] == "transition.v1"
    assert message.headers[TRACE_HEADER] == trace


async def test_a_second_publish_with_the_same_id_is_a_duplicate(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    first = await append(bus, b"1", message_id="same")
    second = await append(bus, b"1", message_id="same")
    assert second == PublishAck("RUNS", first.sequence, duplicate=True)
    assert len(await read(bus)) == 1


async def test_an_id_is_forgotten_after_the_dedupe_window(backend: Backend) -> None:
    await backend.ensure([], [dataclasses.replace(stream, dedupe_seconds=0.2) for stream in STREAMS])
    bus = await backend.connect("gatekeeper")
    await append(bus, b"1", message_id="same")
    await asyncio.sleep(0.4)
    assert not (await append(bus, b"1", message_id="same")).duplicate


async def test_an_append_at_the_expected_sequence_succeeds(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    first = await append(bus, b"1", 0)
    second = await append(bus, b"2", first.sequence)
    assert [message.sequence for message in await read(bus)] == [first.sequence, second.sequence]


async def test_an_append_at_a_stale_sequence_is_a_conflict_and_stores_nothing(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await append(bus, b"1", 0)
    with pytest.raises(ConflictError):
        await append(bus, b"other", 0)
    with pytest.raises(ConflictError):
        await append(bus, b"other", 77)
    assert [message.data for message in await read(bus)] == [b"1"]


async def test_the_expected_sequence_is_that_of_the_subject(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await append(bus, b"1", 0)
    other = await append(bus, b"2", 0, subject="gw.run.run-00000002")
    await append(bus, b"3", other.sequence, subject="gw.run.run-00000002")
    assert [message.data for message in await read(bus)] == [b"1"]
    assert [message.data for message in await read(bus, "gw.run.run-00000002")] == [b"2", b"3"]


async def test_of_many_writers_at_one_place_exactly_one_wins(connect: Connect) -> None:
    buses = [await connect(f"gatekeeper-{number}") for number in range(4)]
    tries = [append(bus, b"%d.%d" % (who, turn), 0) for who, bus in enumerate(buses) for turn in range(3)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, PublishAck) for result in results) == 1
    assert sum(isinstance(result, ConflictError) for result in results) == len(tries) - 1
    assert len(await read(buses[0])) == 1


async def test_repeating_an_append_whose_answer_was_lost_is_a_duplicate(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    first = await append(bus, b"1", 0)
    assert await append(bus, b"1", 0) == PublishAck("RUNS", first.sequence, duplicate=True)
    assert len(await read(bus)) == 1


async def test_another_writer_that_uses_our_id_is_a_conflict_not_a_duplicate(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await append(bus, b"theirs", 0, message_id="run:1")
    with pytest.raises(ConflictError):
        await append(bus, b"ours", 0, message_id="run:1")


async def test_an_append_is_not_lost_to_an_id_that_another_subject_used(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await append(bus, b"1", 0, message_id="same")
    with pytest.raises(ConflictError):
        await append(bus, b"1", 0, subject="gw.run.run-00000002", message_id="same")


async def test_ids_that_differ_only_in_blanks_or_letters_are_two_ids(connect: Connect) -> None:
    bus = await connect("worker")
    for one, other in [("task 1", "task  1"), ("task-1", "task-1 "), ("a\r\nX: 1", "a X: 1"), ("ü", "u")]:
        acks = [await append(bus, b"1", message_id=message_id) for message_id in (one, other, one)]
        assert [ack.duplicate for ack in acks] == [False, False, True]
    for message in await read(bus):
        assert set(message.headers) <= {"Nats-Msg-Id", "Nats-Expected-Stream", SCHEMA_HEADER}


NO_SUBJECTS = ["gw.run.*", "gw.run.>", "gw.run.a b", "gw.run.a\r\nPUB gw.run.b 0", "gw.run.", "gw.run", "gw.other.x", ""]


async def test_a_subject_that_is_none_is_refused(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    for subject in NO_SUBJECTS:
        with pytest.raises(MalformedError) as caught:
            await append(bus, b"1", subject=subject)
        assert caught.value.reason == "bad_subject"
    assert await read(bus, "gw.run.*") == []


TOO_MANY = {f"X-{number}": "x" * 900 for number in range(4)}


async def test_a_server_command_or_line_breaking_header_is_refused(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    for headers in ({"Nats-Rollup": "all"}, {"nats-msg-id": "x"}, {"A\r\nB": "x"}, {"traceparent": "a\r\nb: c"}, TOO_MANY):
        with pytest.raises(MalformedError) as caught:
            await bus.publish(RUN, b"{}", schema="transition.v1", message_id="m", headers=headers)
        assert caught.value.reason == "bad_header"


async def test_an_oversized_message_is_refused_and_the_connection_survives(connect: Connect) -> None:
    bus = await connect("worker")
    with pytest.raises(MalformedError) as caught:
        await append(bus, bytes(MAX_MESSAGE_BYTES), message_id="large")
    assert caught.value.reason == "message_too_large"
    largest = bytes(MAX_MESSAGE_BYTES - HEADER_BYTES)
    assert (await append(bus, largest, message_id="largest")).sequence == 1
    assert (await read(bus))[0].data == largest


async def test_replay_of_a_pattern_is_in_order_and_complete(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    for number in range(200):
        await append(bus, b"%d" % number, subject=f"gw.run.run-{number % 7}")
    messages = await read(bus, "gw.run.*")
    assert [message.data for message in messages] == [b"%d" % number for number in range(200)]
    assert [message.sequence for message in messages] == list(range(1, 201))


async def test_replay_of_a_subject_without_messages_ends(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await append(bus, b"1")
    assert await read(bus, "gw.run.run-00000009") == []


async def test_replay_ends_at_the_last_message_that_existed_when_it_began(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    for data in (b"1", b"2", b"3"):
        await append(bus, data)
    seen = []
    async for message in bus.replay(RUN):
        seen.append(message.data)
        await append(bus, b"later than " + message.data)
    assert seen == [b"1", b"2", b"3"]


async def test_following_goes_on_with_new_messages(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    watcher = await connect("watcher")
    await append(bus, b"1")
    seen = []
    async with asyncio.timeout(PATIENCE), aclosing(watcher.replay(RUN, follow=True)) as messages:
        async for message in messages:
            seen.append(message.data)
            if len(seen) == 3:
                break
            await append(bus, b"%d" % (len(seen) + 1))
    assert seen == [b"1", b"2", b"3"]


async def test_following_a_subject_that_has_no_message_yet_waits_for_the_first(connect: Connect) -> None:
    bus = await connect("gatekeeper")

    async def first() -> bytes:
        async with aclosing(bus.replay(RUN, follow=True)) as messages:
            return (await anext(messages)).data

    waiting = asyncio.create_task(first())
    await asyncio.sleep(0.1)
    await append(bus, b"1")
    assert await asyncio.wait_for(waiting, PATIENCE) == b"1"


async def test_a_replay_of_what_no_stream_keeps_is_refused(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    with pytest.raises(MalformedError):
        await read(bus, "other.>")
