"""What operators and their tools see of the bus, and what they leave there."""

from __future__ import annotations

import json
import os
from contextlib import aclosing

import pytest
from nats.micro.service import ServiceInfo, ServicePing

from gatewright.artifacts import uri_of
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.object_store import PIECE_BYTES, SIZE_HEADER
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import ARTIFACTS, artifact_subject
from gatewright.errors import ArtifactError, MalformedError
from gatewright.version import __version__
from tests.bus.backends import Raw
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


async def test_a_replay_that_is_left_early_leaves_no_consumer_behind(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    for number in range(3):
        await bus.publish("gw.run.r", b"%d" % number, schema="s", message_id=f"m{number}")
    async with aclosing(bus.replay("gw.run.r", follow=True)) as messages:
        await anext(messages)
    await bus.connection.flush()
    assert await (await connect_raw(nats_server)).jetstream().consumers_info("RUNS") == []


async def test_an_artifact_that_is_there_is_not_stored_again(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    large = os.urandom(3 * PIECE_BYTES)
    for _ in range(3):
        await bus.put_artifact(b"the same bytes")
        await bus.put_artifact(large)
    info = await (await connect_raw(nats_server)).jetstream().stream_info(ARTIFACTS.name)
    assert info.state.messages == 1 + 3


async def test_an_upload_that_broke_off_is_completed(bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw) -> None:
    data = os.urandom(3 * PIECE_BYTES)
    uri = uri_of(data)
    raw = (await connect_raw(nats_server)).jetstream()
    await raw.publish(artifact_subject("worker", uri.rpartition(":")[2], 2), data[2 * PIECE_BYTES :])
    with pytest.raises(ArtifactError, match="there is no"):
        await bus.get_artifact(uri)
    assert await bus.put_artifact(data) == uri
    assert await bus.get_artifact(uri) == data


@pytest.mark.parametrize("size", ["", "-1", "1e3", "9" * 400, str(1 << 60), "\u0661"])
async def test_an_artifact_of_a_size_that_cannot_be_is_not_read(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw, size: str
) -> None:
    uri = uri_of(b"bytes")
    subject = artifact_subject("hostile", uri.rpartition(":")[2], 0)
    await (await connect_raw(nats_server)).jetstream().publish(subject, b"bytes", headers={SIZE_HEADER: size} if size else {})
    with pytest.raises(ArtifactError) as caught:
        await bus.get_artifact(uri)
    assert caught.value.reason == "artifact_damaged"


async def test_damage_by_a_sibling_with_the_same_credential_is_reported(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    uri = uri_of(b"bytes")
    raw = (await connect_raw(nats_server)).jetstream()
    await raw.publish(artifact_subject("worker", uri.rpartition(":")[2], 0), b"other", headers={SIZE_HEADER: "5"})
    with pytest.raises(ArtifactError, match="with the credential of worker"):
        await bus.put_artifact(b"bytes")


async def test_a_service_can_be_found_and_asked_by_the_tools_of_nats(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    async def submit(message: Message) -> Reply:
        if message.data == b"bad":
            raise MalformedError("no")
        return Reply(b"{}", "submit_reply.v1")

    await bus.serve("gatekeeper", {"gw.submit": submit})
    raw = await connect_raw(nats_server)
    ping = ServicePing.from_dict(json.loads((await raw.request("$SRV.PING", b"", timeout=PATIENCE)).data))
    assert (ping.name, ping.version) == ("gatekeeper", __version__)
    await raw.request("gw.submit", b"good", timeout=PATIENCE)
    await raw.request("gw.submit", b"bad", timeout=PATIENCE)
    info = ServiceInfo.from_dict(json.loads((await raw.request("$SRV.INFO.gatekeeper", b"", timeout=PATIENCE)).data))
    assert [(one.name, one.subject) for one in info.endpoints] == [("gw-submit", "gw.submit")]
    (stats,) = json.loads((await raw.request(f"$SRV.STATS.gatekeeper.{ping.id}", b"", timeout=PATIENCE)).data)["endpoints"]
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
    await raw.request("gw.submit", b"{}", timeout=PATIENCE)
    assert [message async for message in bus.replay("gw.run.*")] == []
