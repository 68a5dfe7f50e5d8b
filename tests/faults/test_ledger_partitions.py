"""A ledger in several streams on the real server, as it is rendered: who may write, read and shorten it, and who may not."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from nats.aio.client import Client

from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus import topology as t
from gatewright.bus.identities import OPERATOR, PROVISIONER, WATCHER, BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.removal import entries_by_run, remove_entries
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.operator_mode.files import make_jwt, trust_lines, write_jwt
from gatewright.bus.permissions import access_of
from gatewright.bus.server_config import accounts, accounts_text, with_identities
from gatewright.bus.topology import run_subject
from gatewright.errors import BusError, ConfigurationError
from tests.waiting import PATIENCE

PARTS = 3
RUNS = [f"run-{number:020x}" for number in range(12)]
Mode = Literal["configuration", "operator"]


@contextlib.asynccontextmanager
async def divided_server(directory: Path, mode: Mode) -> AsyncIterator[NatsServer]:
    keys = directory / "bus"
    identities.make(keys)
    if mode == "configuration":
        server = await NatsServer.start(directory / "nats", keys=keys, partitions=PARTS)
    else:
        made = make_jwt(keys, (t.DEFAULT_POOL,), int(time.time()), partitions=PARTS)
        write_jwt(made, directory / "jwt")
        trust = trust_lines(made.trust, directory / "nats" / "accounts")
        server = await NatsServer.launch(directory / "nats", {}, directory / "jwt" / "creds", trust=trust, partitions=PARTS)
    async with server:
        await ensure_topology(server.address(PROVISIONER))
        yield server


async def connected(server: NatsServer, identity: str, stack: contextlib.AsyncExitStack) -> JetStreamBus:
    bus = await JetStreamBus.connect(server.address(identity), name=identity, patience=0.5)
    stack.push_async_callback(bus.close)
    return bus


async def put(bus: JetStreamBus, run: str, number: int) -> int:
    ack = await bus.publish(run_subject(run), b"%d" % number, schema="s", message_id=f"{run}:{number}")
    return ack.sequence


@pytest.mark.long
@pytest.mark.parametrize("mode", ["configuration", "operator"])
async def test_identities_have_equal_permissions_on_every_ledger_stream(tmp_path: Path, mode: Mode) -> None:
    async with divided_server(tmp_path, mode) as server, contextlib.AsyncExitStack() as stack:
        gatekeeper, watcher, operator, provisioner, publisher, worker = [
            await connected(server, each, stack)
            for each in ("gatekeeper", WATCHER, OPERATOR, PROVISIONER, "publisher", "worker")
        ]
        following = asyncio.create_task(first(watcher, 2 * len(RUNS)))
        places = {run: [await put(gatekeeper, run, number) for number in range(2)] for run in RUNS}
        assert {gatekeeper.layout.partition_at(each[0]) for each in places.values()} == set(range(PARTS))
        async with asyncio.timeout(PATIENCE):
            assert sorted(await following) == sorted(place for each in places.values() for place in each)
        for reader in (watcher, operator, gatekeeper):
            for run in RUNS:
                assert [message.sequence async for message in reader.replay(run_subject(run))] == places[run]
        for stranger in (watcher, operator, provisioner, publisher, worker):  # each waits for an answer that does not come
            with pytest.raises(BusError):
                await put(stranger, RUNS[0], 9)
        with pytest.raises(BusError):
            [message async for message in publisher.replay(run_subject("*"))]
        assert await entries_by_run(provisioner.connection) == dict.fromkeys(RUNS, 2)
        for run in RUNS:
            assert await remove_entries(provisioner.connection, run, places[run][-1]) == 1
        with pytest.raises(BusError):
            await remove_entries(provisioner.connection, RUNS[0], places[RUNS[0]][-1] + 1)  # a place of another partition
        with pytest.raises(BusError):
            await remove_entries(gatekeeper.connection, RUNS[0], places[RUNS[0]][-1])
        assert [message.data async for message in operator.replay(run_subject("*"))] == [b"1"] * len(RUNS)


async def first(bus: JetStreamBus, count: int) -> list[int]:
    found: list[int] = []
    async with contextlib.aclosing(bus.replay(run_subject("*"), follow=True)) as messages:
        async for message in messages:
            found.append(message.sequence)
            if len(found) == count:
                break
    return found


async def test_a_gatekeeper_with_another_partition_number_writes_nothing(tmp_path: Path) -> None:
    async with divided_server(tmp_path, "configuration") as server, contextlib.AsyncExitStack() as stack:
        right = await connected(server, "gatekeeper", stack)
        for told in (1, 2, 4):
            address = server.address("gatekeeper")
            wrong = BusAddress(address.url, address.seed, partitions=told)
            with pytest.raises(ConfigurationError) as refused:
                await ensure_topology(wrong)
            assert refused.value.reason == "ledger_partitions_differ"
            bus = await JetStreamBus.connect(wrong, name="wrong", patience=0.5)
            with pytest.raises(BusError):
                await put(bus, RUNS[told], 0)
            await bus.close()
        assert [message async for message in right.replay(run_subject("*"))] == []


async def test_plain_clients_see_a_runs_stream_and_watchers_its_id(tmp_path: Path) -> None:
    async with divided_server(tmp_path, "configuration") as server, contextlib.AsyncExitStack() as stack:
        gatekeeper = await connected(server, "gatekeeper", stack)
        credential = identities.load(identities.seed_file(tmp_path / "bus", WATCHER))
        client = Client()
        await client.connect(server.url, nkeys_seed_str=credential.seed, inbox_prefix=f"_INBOX_{WATCHER}")
        heard = await client.subscribe(t.WATCH_SUBJECT)
        await client.flush()
        for run in RUNS:
            await put(gatekeeper, run, 0)
        repeated = [(await heard.next_msg(10)).subject for _ in RUNS]
        await client.close()
        assert sorted(repeated) == sorted(f"gw.watch.{run}" for run in RUNS)
        for run in RUNS:
            (runs,) = gatekeeper.layout.stored_runs(run_subject(run))
            assert runs.subject == f"gw.run.{PARTS}.{gatekeeper.layout.partition_of(run)}.{run}"
            assert runs.stream == ("RUNS", "RUNS_1", "RUNS_2")[runs.partition]


def test_one_stream_stays_unchanged_and_identity_changes_keep_the_number(tmp_path: Path) -> None:
    identities.make(tmp_path)
    known = identities.public_keys(tmp_path)
    assert "ledger partitions" not in accounts_text(accounts(known))
    assert t.streams(1) == t.STREAMS
    assert not any("RUNS_" in subject or "gw.run.1." in subject for each in known for subject in access_of(each).sends())
    text = accounts_text(accounts(known, partitions=PARTS), partitions=PARTS)
    assert with_identities(text, known, {}) == text
    assert f'"gw.run.{PARTS}.2.*"' in text
