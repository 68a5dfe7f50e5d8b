"""Headers are commands to the server: every identity gives each of them wherever it may publish, and nothing of others is lost.

The counts are printed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import nats.errors
import pytest
from nats.aio.client import Client

from gatewright.artifacts import uri_of
from gatewright.bus import identities
from gatewright.bus import topology as t
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.permissions import Access, access_of, own_uploads
from tests.faults.bus_parties import EVERYBODY, STREAM_NAMES, Bus, Party, open_bus
from tests.waiting import PATIENCE

#: Every header that a NATS server obeys: what becomes of what was there before, how long a message lives, when and where it is
#: delivered, what it counts, what is bundled with it, what it comes from, what it is taken for.
HEADERS: tuple[dict[str, str], ...] = (
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"nats-rollup": "all"},
    {"Nats-TTL": "1s"},
    {"Nats-TTL": "never"},
    {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "gw.run.run-0123456789"},
    {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "gw.task.worker.default.normal", "Nats-Schedule-TTL": "5m"},
    {"Nats-Scheduler": "gw.run.run-0123456789", "Nats-Schedule-Next": "purge"},
    {"Nats-Incr": "+1"},
    {"Nats-Counter-Sources": "{}"},
    {"Nats-Batch-Id": "batch", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    {"Nats-Expected-Last-Sequence": "0"},
    {"Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Expected-Last-Subject-Sequence": "0", "Nats-Expected-Last-Subject-Sequence-Subject": "gw.run.>"},
    {"Nats-Expected-Last-Msg-Id": "guessed"},
    {"Nats-Expected-Stream": "RUNS"},
    {"Nats-Msg-Id": "guessed"},
    {"Nats-Stream-Source": "RUNS 1 > > gw.run.run-0123456789"},
    {"Nats-Marker-Reason": "Purge"},
    {"Nats-Required-Api-Level": "99"},
    {"KV-Operation": "PURGE"},
)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    async with open_bus(tmp_path) as opened:
        yield opened


@dataclass(frozen=True)
class Stored:
    stream: str
    sequence: int
    subject: str
    data: bytes


async def stored(bus: Bus) -> set[Stored]:
    """Everything that any stream holds."""
    found = set()
    for stream in STREAM_NAMES:
        answer = await bus.operator.connection.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=PATIENCE)
        for sequence in range(1, msgspec.json.decode(answer.data)["state"]["last_seq"] + 1):
            question = msgspec.json.encode({"seq": sequence})
            got = await bus.operator.connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", question, timeout=PATIENCE)
            if message := msgspec.json.decode(got.data).get("message"):
                data = base64.b64decode(message.get("data", ""))
                found.add(Stored(stream, sequence, message["subject"], data))
    return found


def places(access: Access, name: str) -> list[str]:
    """One subject for each stored kind that an identity may publish, with ``name`` where it may choose."""
    subjects = (pattern.replace("*", name).replace(">", f"{name}.0") for pattern in access.publish)
    kept = [subject for subject in subjects if not subject.startswith(("_INBOX", "$SRV"))]
    # More than one token is free below the queues.
    return [subject.removesuffix(".0") if subject.startswith("gw.dead") else subject for subject in kept]


async def say(party: Party, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
    """Publish, and wait for what the server says of it, where it says anything."""
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await party.client.request(subject, data, timeout=0.15, headers=headers)


async def test_no_header_that_the_server_obeys_takes_away_what_others_have_stored(
    bus: Bus, capsys: pytest.CaptureFixture[str]
) -> None:
    for party in bus.parties.values():
        for subject in places(party.access, "honest"):
            await say(party, subject, f"honest {party.access.identity}".encode())
    before = await stored(bus)
    tried = 0
    for party in bus.parties.values():
        sent = [
            say(party, subject, b"hostile", headers)
            for number, headers in enumerate(HEADERS)
            for subject in places(party.access, f"hostile-{number}")
        ]
        tried += len(sent)
        for start in range(0, len(sent), 32):
            await asyncio.gather(*sent[start : start + 32])
    # A message that was given a time to live, or one for later, would be gone or there by now.
    await asyncio.sleep(1.5)
    after = await stored(bus)
    with capsys.disabled():
        sys.stdout.write(f"\nheaders: {tried} publishes, {len(before)} messages of others, {len(before - after)} lost ")
    assert {each.stream for each in before} == set(STREAM_NAMES) - {"EXHAUSTED"}
    assert before - after == set()
    # What a header would have had the server write: under the ledger's subject, or as a task.
    assert not [each for each in after - before if each.subject in {"gw.run.run-0123456789", "gw.task.worker.default.normal"}]


async def test_a_rollup_by_a_publisher_does_not_wipe_the_artifacts_of_another(bus: Bus) -> None:
    role = await JetStreamBus.connect(bus.server.address("worker"), name="worker")
    uris = [await role.put_artifact(b"patch %d" % number) for number in range(100)]
    hostile = bus.parties["publisher-ci"]
    for roll in ("all", "sub"):
        subject = own_uploads("ci").replace(">", f"{'0' * 64}.0")
        await say(hostile, subject, b"gone", {"Nats-Rollup": roll})
    assert [await role.get_artifact(uri) for uri in uris] == [b"patch %d" % number for number in range(100)]
    await role.close()


async def test_no_identity_overwrites_or_impersonates_an_artifact_of_another(bus: Bus) -> None:
    reader = await JetStreamBus.connect(bus.server.address("reviewer"), name="reviewer")
    worker = await JetStreamBus.connect(bus.server.address("worker"), name="worker")
    uri = await worker.put_artifact(b"the patch")
    digest = uri.rpartition(":")[2]
    for party in bus.parties.values():
        await say(party, t.artifact_subject("worker", digest, 0), b"other", {"Gw-Artifact-Size": "5"})
        await say(party, t.artifact_subject(party.access.identity, digest, 0), b"other", {"Gw-Artifact-Size": "5"})
    assert await reader.get_artifact(uri) == b"the patch"
    assert await worker.put_artifact(b"the patch") == uri
    for opened in (reader, worker):
        await opened.close()


async def test_another_identitys_artifact_cannot_be_poisoned_in_advance(bus: Bus) -> None:
    reader = await JetStreamBus.connect(bus.server.address("gatekeeper"), name="gatekeeper")
    worker = await JetStreamBus.connect(bus.server.address("worker"), name="worker")
    data = b"a patch that can be foreseen"
    digest = uri_of(data).rpartition(":")[2]
    for identity in EVERYBODY:
        if identity != "worker":
            subject = t.artifact_subject(identity, digest, 0)
            await say(bus.parties[identity], subject, b"poison", {"Gw-Artifact-Size": "6", "Nats-Msg-Id": f"worker.{digest}.0"})
    uri = await worker.put_artifact(data)
    assert await reader.get_artifact(uri) == data
    for opened in (reader, worker):
        await opened.close()


async def test_the_credentials_of_operator_and_gatekeeper_cannot_shrink_or_seal_the_ledger(bus: Bus) -> None:
    before = await configuration(bus, "RUNS")
    changes: tuple[dict[str, object], ...] = (
        {"sealed": True},
        {"max_msgs": 1, "discard": "old"},
        {"max_age": 1_000_000_000},
        {"subjects": ["elsewhere.>"]},
        {"allow_rollup_hdrs": True},
    )
    for identity in (identities.OPERATOR, "gatekeeper"):
        for change in changes:
            body = msgspec.json.encode({**before, **change})
            for call in ("STREAM.UPDATE.RUNS", "STREAM.CREATE.RUNS"):
                for prefix in ("$JS.API", "gw.js"):
                    with contextlib.suppress(nats.errors.Error, TimeoutError):
                        await bus.parties[identity].client.request(f"{prefix}.{call}", body, timeout=0.2)
    assert await configuration(bus, "RUNS") == before


async def configuration(bus: Bus, stream: str) -> dict[str, object]:
    answer = await bus.operator.connection.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=PATIENCE)
    found: dict[str, object] = msgspec.json.decode(answer.data)["config"]
    return found


@pytest.mark.parametrize("identity", ["publisher-ci", "watcher", "worker"])
async def test_one_connection_cannot_fill_the_server_with_subscriptions(bus: Bus, identity: str) -> None:
    greedy, gone = Client(), asyncio.Event()
    await join(greedy, bus, identity, closed=gone)
    with contextlib.suppress(nats.errors.Error, OSError):
        for number in range(access_of(identity).limits.subscriptions + 1):
            await greedy.subscribe(f"_INBOX_{identity}.{number}")
        await greedy.flush()
    await asyncio.wait_for(gone.wait(), PATIENCE)
    await others_are_served(bus)


@pytest.mark.parametrize("identity", ["publisher-ci", "watcher"])
async def test_one_identity_cannot_fill_the_server_with_connections(bus: Bus, identity: str) -> None:
    async with contextlib.AsyncExitStack() as stack:

        async def fill() -> None:
            for _ in range(access_of(identity).limits.connections + 1):
                client = Client()
                stack.callback(drop, client)
                await join(client, bus, identity)

        with pytest.raises(nats.errors.Error, match="maximum account active connections"):
            await fill()
        await others_are_served(bus)


def drop(client: Client) -> None:
    """The client leaves the transport of a refused connection open."""
    if client._transport is not None:
        client._transport.close()  # type: ignore[no-untyped-call] # no types there


async def join(client: Client, bus: Bus, identity: str, closed: asyncio.Event | None = None) -> None:
    async def told(_error: Exception) -> None:
        return

    async def over() -> None:
        if closed is not None:
            closed.set()

    seed = identities.load(bus.server.address(identity).seed or Path()).seed
    inbox = f"_INBOX_{identity}"
    await client.connect(
        bus.server.url, nkeys_seed_str=seed, inbox_prefix=inbox, error_cb=told, closed_cb=over, allow_reconnect=False
    )


async def others_are_served(bus: Bus) -> None:
    other = await JetStreamBus.connect(bus.server.address("pm"), name="pm")
    assert await other.get_artifact(await other.put_artifact(b"served"))
    await other.close()
