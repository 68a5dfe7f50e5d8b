"""A run whose answer ends the gatekeeper each time is ended with a reason: it does not wait for ever, and seen by nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import result_subject
from gatewright.clock import SystemClock
from gatewright.contracts import codec
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.gate_checks import DiffCheck, GateCheck, Verdict
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.result_consumer import MOST_CRASHES, ResultConsumer
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.tasks.dead_letters import DeadLetters
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, make_result, open_gatekeeper
from tests.gatekeeper.publishing import Given, make_result_consumer
from tests.git.repositories import MakeRepository, Repository


class DefectError(Exception):
    """What was not foreseen. Its words may show anything."""


@pytest.fixture
def repository(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Of a gatekeeper whose diff gate has a defect."""
    judge = GateEngine.answer

    async def answer(gates: GateEngine, question: GateCheck) -> Verdict:
        if isinstance(question, DiffCheck):
            raise DefectError("of the patch these words")
        return await judge(gates, question)

    monkeypatch.setattr(GateEngine, "answer", answer)
    return make_repository()


async def answered(house: Gatekeeper, *, held: bool = True) -> Message:
    """The worker's answer as it lies in RESULTS; not ``held``: from a process that was not given the task."""
    await house.submit(contract_on(house.repository))
    run = await house.plan()
    result = make_result(run, await house.bus.put_artifact(house.patch({"README.md": b"another text\n"})))
    headers = {"Gw-Schema": "task_result.v1"}
    if held:
        headers[TASK_TOKEN_HEADER] = task_token(house.bus, run.run_id, result.task_id)
    return Message(result_subject("worker"), codec.encode(result), headers, sequence=7)


def consumer_of(house: Gatekeeper) -> ResultConsumer:
    limits = PublisherLimits(PublisherRuns(SystemClock(), frozenset()), SystemClock())
    return make_result_consumer(house.orchestrator, limits, SecretScanner())


async def crashed(house: Gatekeeper, message: Message, attempts: int) -> Given:
    """One more delivery, which ends the process."""
    delivery = Given(message, attempts)
    with pytest.raises(DefectError):
        await consumer_of(house).handle(delivery)
    return delivery


async def test_a_crashing_answer_ends_its_run_with_a_bundle(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as house:
        message = await answered(house)
        for attempts in range(1, MOST_CRASHES):
            assert (await crashed(house, message, attempts)).settled == []
        assert (await house.run()).state == "S2"
        assert (await crashed(house, message, MOST_CRASHES)).settled == ["term"]
        run = await house.run()
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "answer_crashes_gatekeeper")
        assert "DefectError" in run.failure.message
        assert "these words" not in run.failure.message
        (letter,) = await DeadLetters(house.bus).all()
        assert (letter.role, letter.code) == ("gatekeeper", "internal_error")
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_message_without_the_token_of_a_task_ends_no_run(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gatekeeper(repository, tmp_path) as house:
        message = await answered(house, held=False)

        async def broken(*_words: object) -> None:
            raise DefectError

        monkeypatch.setattr(ResultConsumer, "_take_reply", broken)
        assert (await crashed(house, message, MOST_CRASHES)).settled == ["term"]
        assert (await house.run()).state == "S2"
