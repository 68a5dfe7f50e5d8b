"""What operators and their tools see of the bus, and what they leave there."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import aclosing

import pytest
from nats.micro.service import ServiceInfo, ServicePing

from gatewright import __version__
from gatewright.bus.jetstream import JetStreamBus
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import ARTIFACT_BUCKET, ARTIFACT_STREAM
from gatewright.errors import BusError, MalformedError
from tests.bus.backends import Raw
from tests.open_server import OpenServer


async def test_a_replay_that_is_left_early_leaves_no_consumer_behind(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    for number in range(3):
        await bus.publish("gw.run.r", b"%d" % number, schema="s", message_id=f"m{number}")
    async with aclosing(bus.replay("gw.run.r", follow=True)) as messages:
        await anext(messages)
    await bus.connection.flush()
    assert await (await connect_raw(nats_server)).jetstream().consumers_info("RUNS") == []


async def test_artifacts_are_objects_that_other_clients_read(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    data = os.urandom(1_500_000)
    uri = await bus.put_artifact(data)
    store = await (await connect_raw(nats_server)).jetstream().object_store(ARTIFACT_BUCKET)
    digest = uri.rpartition(":")[2]
    assert (await store.get(digest)).data == data
    info = await store.get_info(digest)
    assert (info.size, info.chunks, info.name) == (len(data), 3, digest)


async def test_objects_of_other_clients_are_artifacts(bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw) -> None:
    data = os.urandom(300_000)
    digest = hashlib.sha256(data).hexdigest()
    store = await (await connect_raw(nats_server)).jetstream().object_store(ARTIFACT_BUCKET)
    await store.put(digest, data)
    assert await bus.get_artifact(f"artifact:sha256:{digest}") == data


async def test_an_artifact_that_is_there_is_not_stored_again(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    for _ in range(3):
        await bus.put_artifact(b"the same bytes")
    info = await (await connect_raw(nats_server)).jetstream().stream_info(ARTIFACT_STREAM)
    assert info.state.messages == 2


async def test_an_artifact_that_was_deleted_can_be_put_again(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    uri = await bus.put_artifact(b"bytes")
    store = await (await connect_raw(nats_server)).jetstream().object_store(ARTIFACT_BUCKET)
    await store.delete(uri.rpartition(":")[2])
    assert await bus.put_artifact(b"bytes") == uri
    assert await bus.get_artifact(uri) == b"bytes"


@pytest.mark.parametrize("field", [{"nuid": "*"}, {"nuid": "a.b"}, {"size": 1 << 60}, {"size": -1}, {"chunks": 1 << 40}])
async def test_a_forged_description_of_an_artifact_is_not_followed(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw, field: dict[str, object]
) -> None:
    uri = await bus.put_artifact(b"bytes")
    raw = (await connect_raw(nats_server)).jetstream()
    (subject,) = (await raw.stream_info(ARTIFACT_STREAM, subjects_filter=f"$O.{ARTIFACT_BUCKET}.M.>")).state.subjects or {}
    description = json.loads((await raw.get_last_msg(ARTIFACT_STREAM, subject)).data or b"")
    await raw.publish(subject, json.dumps(description | field).encode())
    if "chunks" in field:
        assert await bus.get_artifact(uri) == b"bytes"
    else:
        with pytest.raises(BusError.__mro__[1]) as caught:
            await bus.get_artifact(uri)
        assert getattr(caught.value, "reason", "") == "artifact_damaged"


async def test_a_service_can_be_found_and_asked_by_the_tools_of_nats(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    async def submit(message: Message) -> Reply:
        if message.data == b"bad":
            raise MalformedError("no")
        return Reply(b"{}", "submit_reply.v1")

    await bus.serve("gatekeeper", {"gw.submit": submit})
    raw = await connect_raw(nats_server)
    ping = ServicePing.from_dict(json.loads((await raw.request("$SRV.PING", b"", timeout=2)).data))
    assert (ping.name, ping.version) == ("gatekeeper", __version__)
    await raw.request("gw.submit", b"good", timeout=2)
    await raw.request("gw.submit", b"bad", timeout=2)
    info = ServiceInfo.from_dict(json.loads((await raw.request("$SRV.INFO.gatekeeper", b"", timeout=2)).data))
    assert [(one.name, one.subject) for one in info.endpoints] == [("gw-submit", "gw.submit")]
    (stats,) = json.loads((await raw.request(f"$SRV.STATS.gatekeeper.{ping.id}", b"", timeout=2)).data)["endpoints"]
    assert (stats["num_requests"], stats["num_errors"], stats["last_error"]) == (2, 1, "malformed")


@pytest.mark.parametrize("subject", ["$SRV.PING", "gw.submit"])
async def test_a_request_cannot_have_its_answer_written_into_the_ledger(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw, subject: str
) -> None:
    async def submit(message: Message) -> Reply:
        return Reply(b"{}", "submit_reply.v1")

    await bus.serve("gatekeeper", {"gw.submit": submit})
    raw = await connect_raw(nats_server)
    await raw.publish(subject, b"{}", reply="gw.run.run-00000001")
    await raw.request("gw.submit", b"{}", timeout=2)
    assert [message async for message in bus.replay("gw.run.*")] == []
