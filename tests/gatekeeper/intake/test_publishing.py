"""Publishers at the intake: who they are, what they may, their keys, and what they are told of runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import AbortRequest, Error, RunRequest, RunStatus, SubmitReply, TaskContract, codec
from gatewright.contracts.schemas import load as load_schema
from gatewright.contracts.vocabulary import Repository
from gatewright.errors import DeniedError
from gatewright.ledger.store import Ledger
from gatewright.run.events import AbortRequested, event_of
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.publishers import check_same
from tests.factories import make_contract
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake


@pytest.fixture
async def intake(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[IntakeFixture]:
    everybody = make_publisher("default", may_abort="any", may_see="any")
    narrow = make_publisher(
        "narrow",
        repositories=[f"{tmp_path}/allowed"],
        landing_refs=["refs/heads/bots/*"],
        kinds=["contract"],
        highest_priority="normal",
        max_document_bytes=4000,
    )
    counter = open_intake(bus, gates, tmp_path, everybody, make_publisher("acme"), make_publisher("beta"), narrow)
    yield counter
    for task in counter.following:
        task.cancel()


def keyed(document: RunRequest, key: str, **changes: object) -> RunRequest:
    return replace(document, idempotency_key=key, **changes)


def accepted(answer: SubmitReply | Error) -> SubmitReply:
    assert isinstance(answer, SubmitReply), answer
    return answer


def refused(answer: object) -> Error:
    assert isinstance(answer, Error), answer
    return answer


async def test_the_publisher_of_the_subject_is_recorded(intake: IntakeFixture, request_for: RunRequest) -> None:
    for publisher in ("default", "acme"):
        answer = accepted(await intake.submit(request_for, publisher))
        run = await intake.run(answer.run_id)
        assert run is not None
        assert (run.publisher, run.accepted.publisher) == (publisher, publisher)
        assert run.accepted.requested_by == "tests"


async def test_a_publisher_that_is_not_listed_is_refused_everywhere(intake: IntakeFixture, request_for: RunRequest) -> None:
    assert refused(await intake.submit(request_for, "stranger")).code == "publisher_unknown"
    assert refused(await intake.status("run-0123456789", "stranger")).code == "publisher_unknown"
    given = await intake.store(request_for, "stranger")
    assert given.settled == ["term"]
    assert [letter.headers["Gw-Dead-Code"] for letter in await intake.dead()] == ["publisher_unknown"]
    assert await intake.runs() == set()


@pytest.mark.parametrize(
    "subject",
    [
        "gw.submit.default",
        "gw.submit.acme.beta",
        "gw.submit.ACME",
        "gw.submit.äcme",
        "gw.submit.",
        "gw.submit.-x",
        "gw.submitacme",
    ],
)
async def test_a_name_that_is_none_is_refused(intake: IntakeFixture, request_for: RunRequest, subject: str) -> None:
    assert refused(await intake.submit(request_for, subject=subject)).code == "unknown_subject"


async def test_a_publisher_named_in_the_body_counts_for_nothing(intake: IntakeFixture, request_for: RunRequest) -> None:
    claimed = json.loads(codec.encode(request_for)) | {"publisher": "default"}
    answer = refused(await intake.submit(json.dumps(claimed).encode(), "acme"))
    assert (answer.code, [fault.pointer for fault in answer.faults]) == ("malformed", ["/publisher"])
    event = {
        "specversion": "1.0",
        "type": "gatewright.run_request.v1",
        "source": "gw.submit",
        "id": "1",
        "publisher": "default",
    }
    event["data"] = json.loads(codec.encode(request_for))
    run = await intake.run(accepted(await intake.submit(json.dumps(event).encode(), "acme")).run_id)
    assert run is not None
    assert run.publisher == "acme"


async def test_each_rule_that_is_broken_is_named_by_its_place(intake: IntakeFixture, request_for: RunRequest) -> None:
    answer = refused(await intake.submit(keyed(request_for, "a key of mine", priority="high"), "narrow"))
    assert [(fault.pointer, fault.code) for fault in answer.faults] == [
        ("", "kind_not_allowed"),
        ("/priority", "priority_not_allowed"),
        ("/repository/url", "repository_not_allowed"),
        ("/repository/landing", "ref_not_allowed"),
    ]
    assert await intake.runs() == set()


async def test_only_listed_refs_can_be_landed_on(intake: IntakeFixture, tmp_path: Path) -> None:
    def landing(ref: str) -> TaskContract:
        return make_contract(repository=Repository(url=f"{tmp_path}/allowed/x", landing="target", target_ref=ref))

    for ref in ("refs/heads/main", "refs/heads/botsy/x", "refs/heads/bots", "refs/tags/bots/x"):
        answer = refused(await intake.submit(landing(ref), "narrow"))
        assert [(fault.pointer, fault.code) for fault in answer.faults] == [("/repository/target_ref", "ref_not_allowed")]
    accepted(await intake.submit(landing("refs/heads/bots/x"), "narrow"))


async def test_a_document_that_is_too_large_is_refused_unread(intake: IntakeFixture) -> None:
    for answer in (await intake.submit(b"{" * 4001, "narrow"), await intake.status("", "narrow", data=b"[" * 4001)):
        assert refused(answer).code == "document_too_large"


async def test_the_same_key_by_two_publishers_is_two_runs(intake: IntakeFixture, request_for: RunRequest) -> None:
    order = keyed(request_for, "order-4711")
    ids = [accepted(await intake.submit(order, publisher)).run_id for publisher in ("default", "acme", "beta")]
    assert ids == [run_id_of("order-4711"), run_id_of("order-4711", "acme"), run_id_of("order-4711", "beta")]
    assert len(set(ids)) == 3
    given = await intake.store(order, "acme", headers={"Nats-Msg-Id": "order-4711"})
    assert given.settled == ["ack"]
    assert await intake.runs() == set(ids)


@pytest.mark.parametrize("key", ["acme\0order-4711", "\xffacme\0order-4711"])
async def test_no_key_of_one_publisher_leads_to_the_run_of_another(
    intake: IntakeFixture, request_for: RunRequest, key: str
) -> None:
    theirs = accepted(await intake.submit(keyed(request_for, "order-4711"), "acme")).run_id
    assert accepted(await intake.submit(keyed(request_for, key))).run_id != theirs


async def test_a_key_means_the_same_run_by_request_and_by_queue(intake: IntakeFixture, request_for: RunRequest) -> None:
    first = accepted(await intake.submit(keyed(request_for, "order-4711"), "acme"))
    again = accepted(await intake.submit(keyed(request_for, "order-4711"), "acme"))
    assert (again.run_id, first.existing, again.existing) == (first.run_id, False, True)
    assert (await intake.store(keyed(request_for, "order-4711"), "acme")).settled == ["ack"]
    spaced = json.dumps(json.loads(codec.encode(keyed(request_for, "order-4711"))), indent=4).encode()
    assert accepted(await intake.submit(spaced, "acme")).run_id == first.run_id
    contract = make_contract()
    named = {"Gw-Idempotency-Key": "contract-0001"}
    by_header = accepted(await intake.submit(contract, "acme", headers=named))
    assert (await intake.store(contract, "acme", want="contract", headers=named)).settled == ["ack"]
    assert await intake.runs() == {first.run_id, by_header.run_id}


async def test_a_key_with_another_document_is_refused(intake: IntakeFixture, request_for: RunRequest) -> None:
    first = accepted(await intake.submit(keyed(request_for, "order-4711"), "acme"))
    other = keyed(request_for, "order-4711", request="something else")
    answer = refused(await intake.submit(other, "acme"))
    assert (answer.code, answer.faults[0].pointer) == ("idempotency_key_reused", "/idempotency_key")
    assert (await intake.store(other, "acme")).settled == ["term"]
    assert [letter.headers["Gw-Dead-Code"] for letter in await intake.dead()] == ["idempotency_key_reused"]
    assert await intake.runs() == {first.run_id}


async def test_even_the_same_document_does_not_open_the_run_of_another(intake: IntakeFixture, request_for: RunRequest) -> None:
    run = await intake.run(accepted(await intake.submit(request_for, "acme")).run_id)
    assert run is not None
    check_same(run, "acme", run.accepted.document_sha256)
    with pytest.raises(DeniedError) as refusal:
        check_same(run, "beta", run.accepted.document_sha256)
    assert refusal.value.reason == "idempotency_key_reused"


async def test_of_two_documents_under_one_key_at_once_one_is_refused(intake: IntakeFixture, request_for: RunRequest) -> None:
    words = ("one", "another")
    answers = await asyncio.gather(*(intake.submit(keyed(request_for, "order-4711", request=word), "acme") for word in words))
    assert sorted(type(answer).__name__ for answer in answers) == ["Error", "SubmitReply"]
    assert len(await intake.runs()) == 1


async def test_a_header_key_of_the_wrong_length_is_refused(intake: IntakeFixture) -> None:
    answer = await intake.submit(make_contract(), headers={"Gw-Idempotency-Key": "short"})
    assert refused(answer).code == "idempotency_key_invalid"
    schema = load_schema("run_request.v1")["properties"]["idempotency_key"]
    assert f"{schema['minLength']} to {schema['maxLength']} characters" in refused(answer).message


async def test_status_reports_the_state_of_a_run(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = accepted(await intake.submit(request_for, "acme")).run_id
    status = await intake.status(run_id, "acme")
    assert isinstance(status, RunStatus), status
    assert (status.publisher, status.status, status.state, status.code) == ("acme", "RUNNING", "S0", None)
    assert [(task.role, task.status) for task in status.tasks] == [("pm", "RUNNING")]
    assert [(gate.gate, gate.verdict) for gate in status.gates] == [("policy", "PASS")]
    await intake.store(AbortRequest(run_id=run_id, reason="enough", requested_by="me"), "acme", want="abort")
    status = await intake.status(run_id, "acme")
    assert isinstance(status, RunStatus), status
    assert (status.status, status.code, status.message) == ("ABORTED", "aborted", "enough")
    assert intake.results.orchestrator.ledger.known(run_id) is None, "what is over is not kept in memory"
    assert status.bundle is not None
    run = await intake.run(run_id)
    assert run is not None
    assert run.sealed is not None
    assert status.bundle.manifest_sha256 == run.sealed.manifest_sha256


async def test_the_runs_of_others_do_not_exist_for_a_publisher(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = accepted(await intake.submit(request_for, "acme")).run_id
    theirs, nobodys = refused(await intake.status(run_id, "beta")), refused(await intake.status("run-0000000000", "beta"))
    assert (theirs.code, nobodys.code) == ("run_unknown", "run_unknown")
    assert theirs.message.replace(run_id, "X") == nobodys.message.replace("run-0000000000", "X")
    assert isinstance(await intake.status(run_id, "default"), RunStatus)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"run_id": "*"}',
        b'{"run_id": "run-0123456789>"}',
        b'{"run_id": "run-0123456789", "publisher": "default"}',
        b'{"run_id": "run-0123456789", "run_id": "run-9876543210"}',
        b'{"run_id": "\xff\xfe"}',
        '{"run_id": "run-\u202e0123456789"}'.encode(),
    ],
)
async def test_a_forged_question_is_answered_with_its_faults(intake: IntakeFixture, data: bytes) -> None:
    answer = refused(await intake.status("", "acme", data=data))
    assert answer.code == "malformed"
    assert answer.faults


async def test_an_old_key_sent_again_leaves_nothing_in_memory(intake: IntakeFixture, request_for: RunRequest) -> None:
    order = keyed(request_for, "order-4711", allowed_paths=("/",))
    run_id = accepted(await intake.submit(order, "acme")).run_id
    for _ in range(2):
        assert accepted(await intake.submit(order, "acme")).existing
        assert (await intake.store(order, "acme")).settled == ["ack"]
    run = await intake.run(run_id)
    assert run is not None
    assert run.sealed is not None
    assert intake.results.orchestrator.ledger.known(run_id) is None


async def test_only_its_own_runs_can_be_ended_by_a_publisher(intake: IntakeFixture, request_for: RunRequest) -> None:
    run_id = accepted(await intake.submit(request_for, "acme")).run_id
    abort = AbortRequest(run_id=run_id, reason="mine now", requested_by="acme")
    assert (await intake.store(abort, "beta", want="abort")).settled == ["term"]
    assert [letter.headers["Gw-Dead-Code"] for letter in await intake.dead()] == ["abort_not_allowed"]
    run = await intake.run(run_id)
    assert run is not None
    assert not run.ended
    assert (await intake.store(abort, "default", want="abort")).settled == ["ack"]
    position = await Ledger(intake.bus).load(run_id)
    payloads = [event_of(event) for step in position.transitions for event in step.events]
    (asked,) = [payload for payload in payloads if isinstance(payload, AbortRequested)]
    assert (asked.requested_by, asked.publisher) == ("acme", "default")


async def test_unicode_in_names_and_keys_does_no_harm(intake: IntakeFixture, request_for: RunRequest) -> None:
    order = keyed(request_for, "bestellung-äöü-注文", requested_by="Zoë 注文 \u202e")
    first = accepted(await intake.submit(order, "acme"))
    assert accepted(await intake.submit(order, "acme")).existing
    assert first.run_id == run_id_of("bestellung-äöü-注文", "acme")
    decomposed = keyed(request_for, "bestellung-a\u0308o\u0308u\u0308-注文", requested_by="Zoë 注文 \u202e")
    assert accepted(await intake.submit(decomposed, "acme")).run_id != first.run_id


@pytest.mark.parametrize(
    "headers",
    [{"X-Large": "x" * (8 << 20)}, {f"X-{number}": "x" for number in range(200)}, {"x" * 20_000: ""}],
    ids=["a_large_value", "many", "a_long_name"],
)
async def test_a_message_with_large_headers_begins_no_run(
    intake: IntakeFixture, request_for: RunRequest, headers: dict[str, str]
) -> None:
    assert refused(await intake.submit(request_for, "acme", headers=headers)).code == "headers_too_large"
    given = await intake.store(keyed(request_for, "order-4711"), "acme", headers=headers)
    assert given.settled == ["term"]
    assert await intake.runs() == set()
    accepted(await intake.submit(request_for, "acme", headers={"X-Small": "x" * 8000}))
