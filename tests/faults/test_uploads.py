"""One publisher uploads until the server takes no more: all others, and every role, go on as if it were not there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from gatewright.artifacts import uri_of
from gatewright.bus.identities import PROVISIONER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.object_store import PIECE_BYTES
from gatewright.bus.jetstream.rights import known_publishers
from gatewright.bus.topology import upload_stream
from gatewright.errors import ArtifactError, BusError, LimitError
from gatewright.reasons import REASONS
from tests.faults.bus_parties import Bus, open_bus
from tests.waiting import PATIENCE

MIB = 1 << 20


class Connected:
    """Buses of identities by their names, as their processes have them."""

    def __init__(self, bus: Bus, stack: AsyncExitStack) -> None:
        self._bus = bus
        self._stack = stack

    async def bus_of(self, identity: str) -> JetStreamBus:
        connected = await JetStreamBus.connect(self._bus.server.address(identity), name="tests", patience=2.0)
        self._stack.push_async_callback(connected.close)
        return connected


@pytest.fixture
async def connected(tmp_path: Path) -> AsyncIterator[Connected]:
    async with open_bus(tmp_path) as bus, AsyncExitStack() as stack:
        yield Connected(bus, stack)


async def bound(provisioner: JetStreamBus, publisher: str, **limits: int) -> None:
    """Give the uploads of a publisher less room than they are meant to have."""
    name = upload_stream(publisher).name
    there = await provisioner.connection.request(f"gw.js.STREAM.INFO.{name}", b"", timeout=PATIENCE)
    config = msgspec.json.decode(there.data)["config"] | limits
    done = await provisioner.connection.request(f"gw.js.STREAM.UPDATE.{name}", msgspec.json.encode(config), timeout=PATIENCE)
    assert "error" not in msgspec.json.decode(done.data)


async def upload_without_end(publisher: JetStreamBus, size: int) -> int:
    """Upload other bytes again and again until that is refused; how many uploads there were."""
    uploaded: list[str] = []

    async def upload() -> None:
        while True:
            uploaded.append(await publisher.put_artifact(os.urandom(size)))

    with pytest.raises(LimitError) as refused:
        await upload()
    assert refused.value.reason == "uploads_full"
    return len(uploaded)


@pytest.mark.parametrize(
    ("limits", "size", "there_are"),
    [({"max_bytes": 4 * MIB}, PIECE_BYTES - 1000, range(7, 9)), ({"max_msgs": 5}, 10, range(5, 6))],
    ids=["by bytes", "by small files"],
)
async def test_a_publisher_at_its_upload_limit_stops_no_other_identity(
    connected: Connected, limits: dict[str, int], size: int, there_are: range
) -> None:
    await bound(await connected.bus_of(PROVISIONER), "ci", **limits)
    greedy, other = await connected.bus_of("publisher-ci"), await connected.bus_of("publisher")
    assert await upload_without_end(greedy, size) in there_are
    data = os.urandom(3 * PIECE_BYTES)
    uri = await other.put_artifact(data)
    assert await other.get_artifact(uri) == data
    assert await (await connected.bus_of("gatekeeper")).get_upload(uri, "default") == data
    worker, reviewer = await connected.bus_of("worker"), await connected.bus_of("reviewer")
    assert await reviewer.get_artifact(await worker.put_artifact(data)) == data
    assert "inside the document" in REASONS["uploads_full"].advice


async def test_uploads_before_a_publisher_is_full_stay_usable(connected: Connected) -> None:
    await bound(await connected.bus_of(PROVISIONER), "ci", max_bytes=4 * MIB)
    greedy = await connected.bus_of("publisher-ci")
    data = os.urandom(3 * PIECE_BYTES)
    uri = await greedy.put_artifact(data)
    await upload_without_end(greedy, PIECE_BYTES)
    assert await greedy.put_artifact(data) == uri
    assert await greedy.get_artifact(uri) == data
    assert await (await connected.bus_of("gatekeeper")).get_upload(uri, "ci") == data


async def test_a_publisher_cannot_use_uploads_of_other_identities(connected: Connected) -> None:
    """A publisher that knows a digest would else have the bytes of others put into a run of its own."""
    gatekeeper = await connected.bus_of("gatekeeper")
    theirs = await (await connected.bus_of("publisher-ci")).put_artifact(b"of another publisher")
    of_a_run = await (await connected.bus_of("worker")).put_artifact(b"of another's run")
    for uri in (theirs, of_a_run, uri_of(b"stored by no identity")):
        with pytest.raises(ArtifactError) as refused:
            await gatekeeper.get_upload(uri, "default")
        assert refused.value.reason == "artifact_missing"
    assert await gatekeeper.get_upload(theirs, "ci") == b"of another publisher"


async def test_an_operator_is_a_publisher_too_and_uploads_among_the_roles(connected: Connected) -> None:
    operator = await connected.bus_of("operator")
    uri = await operator.put_artifact(b"an operator's own")
    assert await (await connected.bus_of("gatekeeper")).get_upload(uri, "operator") == b"an operator's own"


async def test_the_bus_setup_finds_every_configured_publisher(connected: Connected) -> None:
    for identity in (PROVISIONER, "gatekeeper"):
        setting_up = await connected.bus_of(identity)
        assert await known_publishers(setting_up.connection, 2.0) == ("ci", "default")


async def test_an_outdated_server_configuration_is_reported_by_the_bus_setup(connected: Connected) -> None:
    """An identity that may not ask is what the gatekeeper is to such a server."""
    with pytest.raises(BusError, match="render it anew"):
        await known_publishers((await connected.bus_of("worker")).connection, 0.5)


async def test_expired_pieces_are_uploaded_again(connected: Connected) -> None:
    """The first piece is written last, and goes last."""
    provisioner, publisher = await connected.bus_of(PROVISIONER), await connected.bus_of("publisher-ci")
    await bound(provisioner, "ci", max_age=1_000_000_000, duplicate_window=100_000_000)
    data = os.urandom(3 * PIECE_BYTES)
    uri = await publisher.put_artifact(data)
    while True:
        try:
            await publisher.get_artifact(uri)
        except ArtifactError:
            break
    await bound(provisioner, "ci", max_age=0)
    assert await publisher.put_artifact(data) == uri
    assert await publisher.get_artifact(uri) == data
