"""A run of which the ledger keeps the last transition alone: it is known, it is never run again, and it is told rightly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.client.histories import LedgerHistory, ServedHistory
from gatewright.contracts import (
    AbortRequest,
    Error,
    RunList,
    RunRequest,
    RunsRequest,
    RunStatus,
    SubmitReply,
    Transition,
    codec,
)
from gatewright.ledger.expiry import expire
from gatewright.ledger.store import Ledger
from gatewright.run.evolve import evolve, fold
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.projections.entries import read_entry
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Expired:
    """``intake`` reads a ledger that holds ``transition`` alone; ``run`` is as it was before, ``document`` what made it."""

    intake: IntakeFixture
    run: Run
    transition: Transition
    document: RunRequest


async def close(intake: IntakeFixture) -> None:
    for task in intake.following:
        task.cancel()
    await asyncio.gather(*intake.following, return_exceptions=True)


@pytest.fixture
async def expired(bus: MemoryBus, gates: GateEngine, tmp_path: Path, request_for: RunRequest) -> AsyncIterator[Expired]:
    document = msgspec.structs.replace(request_for, idempotency_key="order-0001")
    publishers = (make_publisher("acme"), make_publisher("beta"))
    before = open_intake(bus, gates, tmp_path / "before", *publishers)
    answer = await before.submit(document, "acme")
    assert isinstance(answer, SubmitReply), answer
    abort = AbortRequest(run_id=answer.run_id, reason="enough", requested_by="me")
    await before.store(abort, "acme", want="abort")
    run = await before.run(answer.run_id)
    await close(before)
    assert run is not None
    transition = expire(run, NOW, "keeper", "old")
    later = MemoryBus(MemoryServer())
    await ensure_topology(later)
    await later.publish(
        run_subject(run.run_id),
        codec.encode(transition),
        schema="transition.v1",
        message_id="last",
        expected_subject_sequence=0,
    )
    after = open_intake(later, gates, tmp_path / "after", *publishers)
    yield Expired(after, run, transition, document)
    await close(after)
    await later.close()


async def entries(intake: IntakeFixture, run_id: str) -> int:
    return len([message async for message in intake.bus.replay(run_subject(run_id))])


async def test_a_key_of_an_expired_run_begins_no_second_one(expired: Expired) -> None:
    for _ in range(2):
        answer = await expired.intake.submit(expired.document, "acme")
        assert answer == SubmitReply(run_id=expired.run.run_id, existing=True)
    stored = await expired.intake.store(expired.document, "acme")
    assert stored.settled == ["ack"]
    assert await entries(expired.intake, expired.run.run_id) == 1


async def test_a_key_of_an_expired_run_with_another_document_is_refused(expired: Expired) -> None:
    other = msgspec.structs.replace(expired.document, requested_by="another")
    answer = await expired.intake.submit(other, "acme")
    assert isinstance(answer, Error)
    assert answer.code == "idempotency_key_reused"


async def test_nothing_moves_an_expired_run(expired: Expired) -> None:
    abort = AbortRequest(run_id=expired.run.run_id, reason="again", requested_by="me")
    assert (await expired.intake.store(abort, "acme", want="abort")).settled == ["ack"]
    assert await entries(expired.intake, expired.run.run_id) == 1
    with pytest.raises(Exception, match="has expired before") as refused:
        expire((await Ledger(expired.intake.bus).load(expired.run.run_id)).run or expired.run, NOW, "keeper", "old")
    assert getattr(refused.value, "reason", "") == "run_expired"


async def test_the_status_of_an_expired_run_is_that_of_its_end(expired: Expired) -> None:
    status = await expired.intake.status(expired.run.run_id, "acme")
    assert isinstance(status, RunStatus), status
    assert (status.status, status.code, status.state) == ("ABORTED", "aborted", "ABORTED")
    assert status.finished_at == expired.run.finished_at
    assert expired.run.sealed is not None
    assert status.bundle is not None
    assert status.bundle.manifest_sha256 == expired.run.sealed.manifest_sha256
    hidden = await expired.intake.status(expired.run.run_id, "beta")
    assert isinstance(hidden, Error)
    assert hidden.code == "run_unknown"


async def test_followers_learn_that_a_run_expired_and_end(expired: Expired) -> None:
    bus = expired.intake.bus
    await bus.serve(
        "gw-gatekeeper", {f"{subject}.acme": each for subject, each in expired.intake.questions.endpoints().items()}
    )
    for history in (LedgerHistory(bus), ServedHistory(bus, {"events": "gw.events.acme"})):
        told = [event async for event in history.events(expired.run.run_id, follow=False)]
        assert [event.event_type for event in told] == ["run_expired"]
        run = evolve(None, told[0])
        assert (run.status, run.sealed, run.accepted.document_sha256) == (
            expired.run.status,
            expired.run.sealed,
            expired.run.accepted.document_sha256,
        )


async def test_lists_have_expired_runs_in_their_old_place(expired: Expired) -> None:
    listed = await expired.intake.ask("runs", codec.encode(RunsRequest()), "acme")
    (entry,) = codec.decode(listed.data, RunList).runs
    assert (entry.run_id, entry.status, entry.created_at) == (expired.run.run_id, "ABORTED", expired.run.created_at)
    index = RunIndex()
    newer = msgspec.json.decode(codec.encode(expired.transition))
    newer["run_id"], newer["events"][0]["payload"]["created_at"] = "run-newer", "2029-12-31T00:00:00.000Z"
    for run_id, data in (("run-newer", msgspec.json.encode(newer)), (expired.run.run_id, codec.encode(expired.transition))):
        told = read_entry(Message(run_subject(run_id), data))
        assert told is not None
        index.saw(told)
    index.read_to_the_end()
    page = index.page(RunsRequest(), lambda _publisher: True)
    assert [run.run_id for run in page.runs] == ["run-newer", expired.run.run_id]


async def test_the_last_transition_goes_on_with_the_history_while_that_is_there(expired: Expired, bus: MemoryBus) -> None:
    position = await Ledger(bus).load(expired.run.run_id)
    whole = fold([*position.transitions, expired.transition])
    alone = fold([expired.transition])
    assert whole is not None
    assert alone is not None
    assert (whole.expired, whole.seq, whole.head, whole.transitions) == (
        alone.expired,
        alone.seq,
        alone.head,
        alone.transitions,
    )
    await Ledger(bus).append(position, expired.transition)
    again = await Ledger(bus).load(expired.run.run_id)
    assert again.run == whole


async def test_a_last_transition_that_was_changed_is_no_entry(expired: Expired) -> None:
    bus, forged = MemoryBus(MemoryServer()), msgspec.json.decode(codec.encode(expired.transition))
    await ensure_topology(bus)
    forged["events"][0]["payload"]["sealed"]["manifest_sha256"] = "0" * 64
    await bus.publish(run_subject(expired.run.run_id), msgspec.json.encode(forged), schema="transition.v1", message_id="forged")
    with pytest.raises(Exception, match="altered") as refused:
        await Ledger(bus).load(expired.run.run_id)
    assert getattr(refused.value, "reason", "") == "chain_digest"
    await bus.close()


async def test_an_open_run_cannot_expire(expired: Expired, bus: MemoryBus) -> None:
    position = await Ledger(bus).load(expired.run.run_id)
    opened = fold(position.transitions[:1])
    assert opened is not None
    with pytest.raises(Exception, match="not sealed") as refused:
        expire(opened, NOW, "keeper", "old")
    assert getattr(refused.value, "reason", "") == "run_not_sealed"
