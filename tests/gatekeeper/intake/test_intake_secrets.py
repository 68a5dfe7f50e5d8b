"""Secrets in messages: refused from outside, taken out of what roles say, and kept out of dead letters and logs."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message
from gatewright.bus.topology import ABORT_SUBJECT, REQUEST_SUBJECT, SUBMIT_SUBJECT, result_subject
from gatewright.clock import SystemClock
from gatewright.contracts import AbortRequest, Error, codec
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Input, RoleReplied
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.attacks import planted
from tests.attacks.real_gate import default_scanner, make_review
from tests.factories import make_request
from tests.gatekeeper.intake.test_result_consumer import Given
from tests.gatekeeper.publishing import make_result_consumer

SECRET_REQUEST = codec.encode(make_request(request=f"deploy with {planted.SENDGRID}"))


@dataclass
class OpenIntake:
    """An intake, what reached the orchestrator behind it, and the log."""

    results: ResultConsumer
    log: io.BytesIO
    taken: list[Input] = field(default_factory=list)


@pytest.fixture
def opened(bus: MemoryBus, gates: GateEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenIntake:
    stream, metrics = io.BytesIO(), Metrics("gatekeeper")
    log = make_logger(stream)
    signer = Signer(keys.load_or_create(tmp_path / "key.pem"))
    orchestrator = Orchestrator(bus, Ledger(bus), gates, BundleWriter(tmp_path / "runs"), signer, SystemClock(), log, metrics)
    limits = PublisherLimits(PublisherRuns(SystemClock(), frozenset()), SystemClock())
    made = OpenIntake(make_result_consumer(orchestrator, limits, default_scanner()), stream)

    async def advance(_self: Orchestrator, _run_id: str, item: Input) -> None:
        made.taken.append(item)

    monkeypatch.setattr(Orchestrator, "advance", advance)
    return made


async def dead_letters(bus: MemoryBus) -> list[Message]:
    return [message async for message in bus.replay("gw.dead.gatekeeper")]


async def test_a_request_with_a_secret_gets_an_answer_that_names_its_place(opened: OpenIntake, bus: MemoryBus) -> None:
    reply = await opened.results.submissions.submit(Message(SUBMIT_SUBJECT, SECRET_REQUEST, {}, sequence=1))
    answer = codec.decode(reply.data, Error)
    assert (answer.code, [fault.pointer for fault in answer.faults]) == ("secret_found", ["/request"])
    assert planted.SENDGRID.encode() not in reply.data + opened.log.getvalue()
    assert [message async for message in bus.replay("gw.run.*")] == []


async def test_a_queued_request_with_a_secret_is_put_aside_without_it(opened: OpenIntake, bus: MemoryBus) -> None:
    delivery = Given(Message(REQUEST_SUBJECT, SECRET_REQUEST, {"Gw-Schema": "run_request.v1"}, sequence=3), 1)
    await opened.results.handle(delivery)
    (buried,) = await dead_letters(bus)
    assert (delivery.settled, opened.taken) == (["term"], [])
    assert buried.headers["Gw-Dead-Code"] == "secret_found"
    assert b"[redacted:veles.secrets.sendgrid]" in buried.data
    assert planted.SENDGRID.encode() not in buried.data + repr(buried.headers).encode() + opened.log.getvalue()


async def test_a_message_that_cannot_be_read_is_put_aside_without_its_secrets(opened: OpenIntake, bus: MemoryBus) -> None:
    data = f"no json, but {planted.GITHUB}".encode()
    await opened.results.handle(Given(Message(result_subject("worker"), data, {"Gw-Schema": "task_result.v1"}, sequence=4), 1))
    (buried,) = await dead_letters(bus)
    assert buried.data == b"no json, but [redacted:github_token]"


async def test_an_escape_of_json_keeps_nothing_in_a_dead_letter(opened: OpenIntake, bus: MemoryBus) -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in planted.GITHUB)
    data = f'{{"request": "{escaped}", "{escaped}": 1}}'.encode()
    await opened.results.handle(Given(Message(REQUEST_SUBJECT, data, {"Gw-Schema": "run_request.v1"}, sequence=6), 1))
    (buried,) = await dead_letters(bus)
    assert json.loads(buried.data) == {"request": "[redacted:github_token]", "[redacted:github_token]": 1}
    assert planted.GITHUB not in repr(buried.headers)


async def test_the_reason_of_an_abort_is_kept_without_its_secrets(opened: OpenIntake) -> None:
    asked = AbortRequest(run_id="run-0123456789", reason=f"leaked {planted.SENDGRID}", requested_by="tests")
    await opened.results.handle(Given(Message(ABORT_SUBJECT, codec.encode(asked), {}, sequence=7), 1))
    (item,) = opened.taken
    assert isinstance(item, AbortReceived)
    assert item.request.reason == "leaked [redacted:veles.secrets.sendgrid]"


async def test_answers_of_a_role_reach_the_ledger_without_secrets(opened: OpenIntake) -> None:
    said = make_review("1" * 40, summary=f"the key {planted.GITHUB} stands in it")
    headers = {"Gw-Schema": "review_report.v1"}
    await opened.results.handle(Given(Message(result_subject("reviewer"), codec.encode(said), headers, sequence=5), 1))
    (answered,) = opened.taken
    assert isinstance(answered, RoleReplied)
    assert getattr(answered.document, "summary", "") == "the key [redacted:github_token] stands in it"
    assert planted.GITHUB.encode() not in opened.log.getvalue()
