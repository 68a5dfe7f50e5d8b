"""The synchronous client on a real NATS server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import gatewright
from gatewright import SyncClient
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import SUBMIT_SUBJECT, run_subject
from gatewright.contracts import SubmitReply, codec
from gatewright.errors import ArtifactError, BusError, MalformedError
from tests.client.conftest import make_run
from tests.factories import make_contract, make_request
from tests.gatekeeper.simulated_run import RUN_ID
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A NATS server with one run in its ledger and a gatekeeper that accepts everything, in a loop on another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    directory = tmp_path_factory.mktemp("nats")

    async def start() -> tuple[OpenServer, JetStreamBus]:
        server = await OpenServer.open(directory)
        bus = await JetStreamBus.connect(server.url, name="gatekeeper")
        await ensure_topology(bus)
        await bus.serve("gw-gatekeeper", {SUBMIT_SUBJECT: accept})
        for transition in make_run().transitions:
            await bus.publish(
                run_subject(RUN_ID), codec.encode(transition), schema="transition.v1", message_id=str(transition.number)
            )
        return server, bus

    async def accept(message: Message) -> Reply:
        assert message.data
        return Reply(codec.encode(SubmitReply(run_id=RUN_ID)), "submit_reply.v1")

    async def stop(server: OpenServer, bus: JetStreamBus) -> None:
        await bus.close()
        await server.stop()

    server, bus = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    yield server.url
    asyncio.run_coroutine_threadsafe(stop(server, bus), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_submit_follow_wait_and_list(url: str) -> None:
    with SyncClient(url) as client:
        assert client.submit_request(make_request()) == RUN_ID
        assert client.submit_contract(make_contract()) == RUN_ID
        assert [event.event_type for event in client.follow(RUN_ID)][-1] == "bundle_sealed"
        assert client.wait(RUN_ID, timeout=PATIENCE).status == "SUCCESS"
        assert [run.run_id for run in client.runs()] == [RUN_ID]
        assert client.get(RUN_ID).status == "SUCCESS"
        assert len(client.events(RUN_ID)) == client.get(RUN_ID).seq
        client.abort(RUN_ID, "too late")


def test_following_may_be_left_early(url: str) -> None:
    with SyncClient(url) as client:
        for event in client.follow(RUN_ID):
            assert event.seq == 1
            break
        assert client.get(RUN_ID).ended


def test_artifacts_go_there_and_back(url: str) -> None:
    with SyncClient(url) as client:
        uri = client.put_artifact(b"bytes")
        assert client.get_artifact(uri) == b"bytes"
        assert client.attach("name", b"bytes").uri.startswith("data:")
        with pytest.raises(ArtifactError):
            client.get_artifact("artifact:sha256:" + "0" * 64)


def test_errors_of_the_asynchronous_client_come_through(url: str) -> None:
    with SyncClient(url) as client, pytest.raises(MalformedError):
        client.submit_request({"request": "incomplete"})


def test_server_that_is_not_there_leaves_no_thread_behind() -> None:
    before = {*threading.enumerate()}
    with pytest.raises(BusError):
        SyncClient("nats://127.0.0.1:1", patience=0.2)
    assert {*threading.enumerate()} <= before


def test_closing_twice_is_harmless(url: str) -> None:
    before = {*threading.enumerate()}
    client = SyncClient(url)
    assert not {*threading.enumerate()} <= before
    client.close()
    client.close()
    assert {*threading.enumerate()} <= before


def test_the_package_offers_the_clients_without_loading_them_first() -> None:
    text = "import sys, gatewright; assert 'nats' not in sys.modules; assert 'msgspec' not in sys.modules; gatewright.Client"
    subprocess.run([sys.executable, "-c", text], check=True, cwd=Path(__file__).parent, timeout=PATIENCE)
    with pytest.raises(AttributeError):
        gatewright.nothing_of_the_kind  # noqa: B018
