"""Letting artifacts expire from a real NATS server: what anything still refers to stays, also what is stored meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatewright.app.retention.artifact_expiry import ArtifactExpiry, ArtifactItem, ArtifactPlan
from gatewright.app.retention.expiry_policy import ArtifactRetention, ExpiryPolicy, LedgerRetention
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.policy_round import PolicyRound, RoundOutcome
from gatewright.app.retention.references import read_references
from gatewright.app.stack.nats_server import NatsServer
from gatewright.artifacts import stored_digest
from gatewright.bus.identities import PROVISIONER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.object_store import PIECE_BYTES
from gatewright.bus.jetstream.removal import last_artifact_use, remove_artifact, stored_artifacts
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Message
from gatewright.bus.topology import artifact_subject, queue_subject
from gatewright.contracts import QueueTransition, codec
from gatewright.contracts.records import QueueRecord
from gatewright.errors import ArtifactError, BusError
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.protocol import MAX_ANSWER_BYTES
from tests.retention.conftest import NOW, Installation, StoppedClock
from tests.unauthenticated_nats import OpenServer

WEEK = 7
LARGE = os.urandom(PIECE_BYTES + 1)


def later(days: float) -> StoppedClock:
    return StoppedClock(datetime.now(UTC) + timedelta(days=days))


def expiry(installation: Installation, days: float = 30) -> ArtifactExpiry:
    """As it will be in so many days."""
    return ArtifactExpiry(installation.bus, installation.provisioner, WEEK, later(days))


async def planned(installation: Installation, days: float = 30) -> ArtifactPlan:
    names = await stored_artifacts(installation.provisioner)
    return await expiry(installation, days).plan(names, await read_references(installation.bus, installation.provisioner))


async def swept(installation: Installation, days: float = 30) -> tuple[ItemOutcome[ArtifactItem], ...]:
    return await expiry(installation, days).carry_out((await planned(installation, days)).items)


async def there(installation: Installation, uri: str) -> bool:
    try:
        await installation.bus.get_artifact(uri)
    except ArtifactError as error:
        return error.reason != "artifact_missing"
    return True


async def policy_round(installation: Installation, *, days: float = 20, yes: bool = True) -> RoundOutcome:
    """As it will be in so many days; runs expire after thirty."""
    policy = ExpiryPolicy(version="1", ledger=LedgerRetention(days=30), artifacts=ArtifactRetention(days=WEEK))
    parts = installation.bus, installation.provisioner, installation.evidence, policy, later(days), "keeper"
    return await PolicyRound(*parts).play(yes=yes)


@pytest.mark.parametrize("data", [b"x", LARGE], ids=["one piece", "two pieces"])
async def test_what_nothing_refers_to_goes_when_it_is_old_enough(installation: Installation, data: bytes) -> None:
    uri = await installation.bus.put_artifact(data)
    assert await swept(installation, WEEK - 0.01) == ()
    assert await there(installation, uri)
    (gone,) = await swept(installation, WEEK + 0.01)
    assert (gone.item.name, gone.code) == (stored_digest(uri), "")
    assert not await there(installation, uri)
    assert await stored_artifacts(installation.provisioner) == frozenset()
    assert await installation.bus.put_artifact(data) == uri
    assert await there(installation, uri)


def named_by(installation: Installation, number: int, *, days_old: float = 100) -> frozenset[str]:
    """The artifacts of a run; runs have some in common."""
    return frozenset(map(stored_digest, installation.house.recorded(number, days_old=days_old).store.blobs))


async def test_artifacts_go_with_the_last_run_of_the_ledger_that_names_them(installation: Installation) -> None:
    age = (NOW - datetime.now(UTC)).days
    first, young = await installation.seal(1), await installation.seal(2, days_old=age)
    old, kept = named_by(installation, 1), named_by(installation, 2, days_old=age)
    assert old - kept
    assert old & kept
    assert await stored_artifacts(installation.provisioner) == old | kept
    outcome = await policy_round(installation, yes=False)
    assert outcome.artifacts == ArtifactPlan((), len(old | kept), 0)
    outcome = await policy_round(installation)
    assert [done.item.run_id for done in outcome.expired_runs] == [first]
    assert {done.item.name for done in outcome.expired_artifacts} == old - kept  # the young run has the others
    installation.hold(await installation.seal(3))
    outcome = await policy_round(installation, days=60)
    assert [done.item.run_id for done in outcome.expired_runs] == [young]
    assert {done.item.name for done in outcome.expired_artifacts} == kept - named_by(installation, 3)  # and the held one
    assert await stored_artifacts(installation.provisioner) == named_by(installation, 3)


async def test_all_artifacts_of_a_run_that_has_left_the_ledger_go(installation: Installation) -> None:
    await installation.seal(1)
    outcome = await policy_round(installation)
    assert outcome.artifacts is not None
    assert len(outcome.expired_artifacts) == len(outcome.artifacts.items) > 0
    assert outcome.left == 0
    assert await stored_artifacts(installation.provisioner) == frozenset()
    assert (await policy_round(installation)).artifacts == ArtifactPlan()


async def test_a_run_whose_bundle_is_not_stored_keeps_its_artifacts(installation: Installation) -> None:
    await installation.seal(1, bundled=False)
    names = await stored_artifacts(installation.provisioner)
    outcome = await policy_round(installation)
    assert (outcome.expired_runs, outcome.artifacts) == ((), ArtifactPlan((), len(names), 0))


async def test_a_message_that_is_no_entry_refers_as_one_does(installation: Installation) -> None:
    uri = await installation.bus.put_artifact(b"named in passing")
    words = f'{{"foreign": "{stored_digest(uri).upper()}"}}'.encode()
    await installation.bus.publish("gw.run.run-0123456789", words, schema="error.v1", message_id="foreign")
    assert await swept(installation) == ()
    assert await there(installation, uri)


@pytest.mark.parametrize("subject", ["gw.task.worker.default.normal"])
async def test_what_waits_in_a_queue_refers(installation: Installation, subject: str) -> None:
    uri = await installation.bus.put_artifact(b"an input")
    await installation.bus.publish(subject, uri.encode(), schema="task_contract.v1", message_id="waits")
    assert await swept(installation) == ()


async def test_a_dead_letter_refers_to_what_holds_its_body(installation: Installation) -> None:
    message = Message("gw.intake.request", b"x" * (MAX_ANSWER_BYTES + 1), sequence=1)
    await publish_dead_letter(installation.bus, "gatekeeper", "INTAKE", message, attempts=1, code="a_code", reason="too large")
    assert len(await stored_artifacts(installation.provisioner)) == 1
    assert await swept(installation) == ()


async def test_what_a_role_stores_again_begins_its_age_anew(installation: Installation) -> None:
    """The race that matters: a run that begins now stores the very bytes that the last one left."""
    uri = await installation.bus.put_artifact(b"shared")
    plan = await planned(installation, 30)
    assert len(plan.items) == 1
    now = JetStreamBus(installation.bus.connection, clock=later(2))  # more than a day after it was stored
    assert await now.put_artifact(b"shared") == uri
    (left,) = await expiry(installation, 30).carry_out(plan.items)
    assert left.code == "bundle_changed"
    assert await there(installation, uri)
    assert (await planned(installation, WEEK - 0.1)).items == ()


async def test_storing_again_is_recorded_once_a_day(installation: Installation) -> None:
    uri = await installation.bus.put_artifact(LARGE)
    name = stored_digest(uri)
    first = await last_artifact_use(installation.bus.connection, name)
    await installation.bus.put_artifact(LARGE)
    assert await last_artifact_use(installation.bus.connection, name) == first
    tomorrow = JetStreamBus(installation.bus.connection, clock=later(2))
    await asyncio.gather(*(tomorrow.put_artifact(LARGE) for _ in range(8)))
    second = await last_artifact_use(installation.bus.connection, name)
    assert first is not None
    assert second is not None
    assert second.sequence == first.sequence + 1
    assert await installation.bus.get_artifact(uri) == LARGE


async def test_an_artifact_stored_during_its_deletion_is_restored(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = await installation.bus.put_artifact(b"shared")
    plan = await planned(installation)
    now = JetStreamBus(installation.bus.connection, clock=later(2))

    async def go(*wanted: object) -> int:
        await now.put_artifact(b"shared")
        return await remove_artifact(*wanted)  # type: ignore[arg-type]

    monkeypatch.setattr("gatewright.app.retention.artifact_expiry.remove_artifact", go)
    (done,) = await expiry(installation).carry_out(plan.items)
    assert done.code == ""
    assert await installation.bus.get_artifact(uri) == b"shared"


async def test_what_goes_while_it_is_stored_is_stored_anew(installation: Installation) -> None:
    """The role found it there, and is about to say so: the server takes that word for what is there alone."""
    uri = await installation.bus.put_artifact(LARGE)
    (item,) = (await planned(installation)).items
    role = JetStreamBus(installation.bus.connection, clock=later(2))
    store = role._artifacts
    known = await store._store(stored_digest(uri), LARGE)
    assert known is not None
    await remove_artifact(installation.provisioner, item.name, item.use.sequence)
    assert not await store._record_use(stored_digest(uri), known)
    assert await role.put_artifact(LARGE) == uri
    assert await there(installation, uri)


async def test_bytes_that_contradict_their_digest_are_deleted(installation: Installation) -> None:
    right = await installation.bus.put_artifact(b"right")
    storage = installation.bus._storage
    lie, junk = artifact_subject("gatekeeper", "0" * 64, 0), artifact_subject("gatekeeper", "no-digest", 0)
    for number, subject in enumerate((lie, junk)):
        await storage.store("ARTIFACTS", subject, b"wrong", message_id=f"lie-{number}", headers={"Gw-Artifact-Size": "x"})
    done = {each.item.name: each.code for each in await swept(installation)}
    assert done == {"0" * 64: "", "no-digest": "", stored_digest(right): ""}
    assert await stored_artifacts(installation.provisioner) == frozenset()


async def test_two_rounds_at_once_take_each_artifact_once(installation: Installation) -> None:
    for number in range(10):
        await installation.bus.put_artifact(b"%d" % number)
    one, other = await asyncio.gather(planned(installation), planned(installation))
    rounds = await asyncio.gather(expiry(installation).carry_out(one.items), expiry(installation).carry_out(other.items))
    assert [done.code for each in rounds for done in each] == [""] * 20
    assert sum(done.removed for each in rounds for done in each) == 10
    assert await stored_artifacts(installation.provisioner) == frozenset()


@pytest.mark.parametrize("name", ["", "*", ">", "a.b", "a b"])
async def test_no_name_covers_more_than_one_artifact(installation: Installation, name: str) -> None:
    uri = await installation.bus.put_artifact(b"x")
    with pytest.raises(BusError):
        await remove_artifact(installation.provisioner, name, 10)
    with pytest.raises(BusError):
        await remove_artifact(installation.provisioner, stored_digest(uri), 0)
    assert await there(installation, uri)


async def test_a_killed_round_leaves_each_artifact_complete_or_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await NatsServer.start(tmp_path / "nats", keys=tmp_path / "keys"))
        await ensure_topology(server.address(PROVISIONER))
        bus, provisioner = await connections(server, stack)
        uris = [await bus.put_artifact(data) for data in (b"one", b"two", LARGE)]
        needed = await bus.put_artifact(b"an input")
        await bus.publish("gw.task.worker.default.normal", needed.encode(), schema="task_contract.v1", message_id="waits")
        round_ = ArtifactExpiry(bus, provisioner, WEEK, later(30))
        plan = await round_.plan(await round_.names(), await read_references(bus, provisioner))
        gone: list[str] = []

        async def dying(connection: Connection, name: str, through: int) -> int:
            if gone:
                os.kill(server.pid, signal.SIGKILL)
                raise asyncio.CancelledError
            gone.append(name)
            return await remove_artifact(connection, name, through)

        monkeypatch.setattr("gatewright.app.retention.artifact_expiry.remove_artifact", dying)
        with pytest.raises(asyncio.CancelledError):
            await round_.carry_out(plan.items)
    monkeypatch.undo()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await NatsServer.start(tmp_path / "nats", keys=tmp_path / "keys"))
        bus, provisioner = await connections(server, stack)
        assert len(gone) == 1
        for uri in (*uris, needed):
            if stored_digest(uri) not in gone:
                await bus.get_artifact(uri)
        next_one = ArtifactExpiry(bus, provisioner, WEEK, later(30))
        plan = await next_one.plan(await next_one.names(), await read_references(bus, provisioner))
        assert [each.code for each in await next_one.carry_out(plan.items)] == ["", ""]
        assert await stored_artifacts(provisioner) == {stored_digest(needed)}
        await bus.get_artifact(needed)


async def connections(server: NatsServer, stack: AsyncExitStack) -> tuple[JetStreamBus, Connection]:
    bus = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
    stack.push_async_callback(bus.close)
    provisioner = await Connection.open(server.address(PROVISIONER), name="expiry")
    stack.push_async_callback(provisioner.close)
    return bus, provisioner


async def fill(bus: JetStreamBus) -> None:
    while True:
        await bus.put_artifact(os.urandom(1 << 20))


async def test_a_round_makes_room_on_a_server_that_has_none(tmp_path: Path) -> None:
    """What keeps all others waiting must not keep the round waiting, too."""
    server = await OpenServer.open(tmp_path / "nats", storage=120 << 20)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    try:
        needed = await bus.put_artifact(b"an input")
        await bus.publish("gw.task.worker.default.normal", needed.encode(), schema="task_contract.v1", message_id="waits")
        with pytest.raises(BusError) as full:
            await fill(bus)
        assert full.value.reason == "bus_storage_full"
        round_ = ArtifactExpiry(bus, bus.connection, WEEK, later(30))
        plan = await round_.plan(await round_.names(), await read_references(bus, bus.connection))
        assert plan.items
        assert {each.code for each in await round_.carry_out(plan.items)} == {""}
        assert await stored_artifacts(bus.connection) == {stored_digest(needed)}
        await bus.put_artifact(os.urandom(1 << 20))
    finally:
        await bus.close()
        await server.stop()


async def test_reports_of_a_merge_queue_stay_while_runs_wait(installation: Installation) -> None:
    report = await installation.bus.put_artifact(b"a report")
    await append_step(installation, 1, "entry_enqueued", {"entry": {"run_id": "run-1"}})
    await append_step(installation, 2, "test_part_reported", {"number": 1, "part": 0, "report": report})
    assert await swept(installation) == ()
    await append_step(installation, 3, "position_landed", {"number": 1, "runs": ["run-1"]})
    assert [each.item.name for each in await swept(installation)] == [stored_digest(report)]


async def append_step(installation: Installation, number: int, event_type: str, payload: dict[str, object]) -> None:
    queue_id = "0123456789abcdef0123"
    event = QueueRecord(event_type=event_type, payload=payload)
    step = QueueTransition(queue_id=queue_id, number=number, ts="2026-01-02T03:04:05.000Z", events=(event,))
    await installation.bus.publish(
        queue_subject(queue_id), codec.encode(step), schema="queue_transition.v1", message_id=str(number)
    )
