"""Questions to roles about an open run: who may ask, how often, what an answer may be, and that none of it moves the run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.bus.subjects import MAX_MESSAGE_BYTES
from gatewright.bus.topology import result_subject
from gatewright.clock import timestamp
from gatewright.contracts import AbortRequest, Error, SummonsAnswer, SummonsList, SummonsRequest, codec
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.people.summons import SummonsItem, SummonsRole, SummonsTask
from gatewright.contracts.proposals import Observation
from gatewright.contracts.task_contract import HandoffChain
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import ConfigurationError, DeniedError, MalformedError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.store import Ledger
from gatewright.resources import schema_directory
from gatewright.rules.approvals import pending
from gatewright.rules.summons import FILE, SummonsBounds, summons_orders
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, RoleReplied, SummonsReceived
from gatewright.services.gatekeeper.dispatch.dispatcher import UnderWay
from gatewright.services.gatekeeper.dispatch.task_tokens import check_held, task_token
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.summons import SummonsService
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.services.gatekeeper.policies.run_policies import SUMMONS_FILE
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.telemetry.logs import make_logger
from gatewright.view.spans import run_spans, task_context
from tests.attacks.people import LANDING, README, policies_with
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, make_review, open_gatekeeper
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

ANSWERED = "summons_answered"
POLICY: dict[str, object] = {"version": "1"}


@dataclass
class Asking:
    """A gatekeeper, and what publishers may ask of it."""

    gatekeeper: Gatekeeper
    service: SummonsService
    folder: Path

    def rule(self, name: str = DEFAULT_PUBLISHER) -> Publisher:
        rule = self.service.orchestrator.policies.publishers.of(name)
        assert rule is not None
        return rule

    async def ask(self, *items: SummonsItem, key: str | None = None, rule: Publisher | None = None) -> SummonsList:
        request = SummonsRequest(run_id=RUN, questions=items, key=key)
        return await self.service.ask(codec.encode(request), rule or self.rule())

    async def to_the_review(self, chain: HandoffChain | None = None) -> Run:
        await self.gatekeeper.submit(contract_on(self.gatekeeper.repository, ordered_by=("dan",), handoff_chain=chain))
        await self.gatekeeper.plan()
        return await self.gatekeeper.work(self.gatekeeper.patch(README))

    async def finish(self) -> Run:
        await self.gatekeeper.review()
        run = await self.gatekeeper.test()
        assert run.sealed is not None
        return run

    async def events(self) -> list[str]:
        position = await self.gatekeeper.orchestrator.ledger.get(RUN)
        return [record.event_type for step in position.transitions for record in step.events]

    async def questions(self) -> list[SummonsTask]:
        """Those that lie on the bus, in any queue of a role."""
        found = [message async for message in self.gatekeeper.bus.unsettled("gw.task.>")]
        return [codec.decode(each.data, SummonsTask) for each in found if each.headers["Gw-Schema"] == "summons_task.v1"]

    def assert_verified(self) -> Path:
        bundle = self.folder / "runs" / RUN
        assert verify(bundle, [keys.load(self.folder / "key.pem").public]).findings == ()
        return bundle


def item(question: str = "Is it bounded?", role: SummonsRole = "reviewer") -> SummonsItem:
    return SummonsItem(role=role, question=question)


def said(task_id: str, **changes: object) -> SummonsAnswer:
    plain = SummonsAnswer(
        run_id=RUN,
        task_id=task_id,
        role="reviewer",
        status="ANSWERED",
        code="ok",
        answered_at=timestamp(HandClock().now()),
        answer="It is, by three.",
        confidence="high",
    )
    return replace(plain, **changes)


@asynccontextmanager
async def opened(
    make_repository: MakeRepository, folder: Path, policy: dict[str, object] | None, *rules: dict[str, object]
) -> AsyncIterator[Asking]:
    policies = policies_with(folder / "policies", *rules)
    if policy is not None:
        (policies / FILE).write_text(json.dumps(policy))
    clock = HandClock()
    async with open_gatekeeper(make_repository(), folder, policies=policies, clock=clock) as gatekeeper:
        limits = PublisherLimits(PublisherRuns(clock, frozenset()), clock)
        yield Asking(gatekeeper, SummonsService(gatekeeper.orchestrator, limits, make_logger(), SecretScanner()), folder)


@pytest.fixture
async def asking(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Asking]:
    async with opened(make_repository, tmp_path, POLICY) as opened_one:
        yield opened_one


async def test_without_the_policy_nothing_is_asked_also_not_when_it_comes_later(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with opened(make_repository, tmp_path, None) as asking:
        run = await asking.to_the_review()
        with pytest.raises(DeniedError) as caught:
            await asking.ask(item())
        assert caught.value.reason == "summons_off"
        with pytest.raises(DeniedError) as caught:
            summons_orders(run, SummonsRequest(run_id=RUN, questions=(item(),)), SummonsBounds(8, ("reviewer",), 60.0))
        assert caught.value.reason == "summons_off"
        assert await asking.questions() == []
        assert (await asking.ask()).left == 0


async def test_an_answer_is_evidence_and_moves_nothing(asking: Asking) -> None:
    before = await asking.to_the_review()
    listed = await asking.ask(item(), item("And what does it leave out?", "techlead"))
    assert (len(listed.asked), listed.left) == (2, 6)
    first, second = await asking.questions()
    assert {first.item.role, second.item.role} == {"reviewer", "techlead"}
    assert before.candidate is not None
    assert [each.uri for each in first.evidence] == [before.candidate.patch]
    assert "README.md" in first.brief
    after = await asking.gatekeeper.answer("reviewer", said(listed.asked[0]))
    assert (after.state, after.review, after.tasks) == (before.state, None, before.tasks)
    heard = await asking.ask()
    assert [each.answer and each.answer.answer for each in heard.summonses] == ["It is, by three.", None]
    run = await asking.finish()
    assert run.status == "SUCCESS"
    bundle = asking.assert_verified()
    assert len(list((bundle / "summonses").glob("*/question.json"))) == 2
    assert len(list((bundle / "summonses").glob("*/answer.json"))) == 1
    # What has no answer is taken back; the other the role would have settled.
    assert [each.task_id for each in await asking.questions()] == [listed.asked[0]]


async def test_each_question_has_the_span_that_its_answers_are_parts_of(asking: Asking) -> None:
    await asking.to_the_review()
    listed = await asking.ask(item(), item("And what does it leave out?", "techlead"))
    await asking.gatekeeper.answer("reviewer", said(listed.asked[0]))
    run = await asking.finish()
    spans = run_spans(run, (await asking.gatekeeper.orchestrator.ledger.get(RUN)).transitions)
    parents = {span.context.span_id: span for span in spans}
    sent = [next(span for span in spans if span.context == task_context(run.trace_id, task)) for task in listed.asked]
    questions = [parents[span.parent] for span in sent]
    assert [(span.name, span.error) for span in questions] == [("summons reviewer", ""), ("summons techlead", "unanswered")]
    assert all(span.parent in parents for span in questions)


async def test_the_second_answer_and_one_after_the_end_count_for_nothing(asking: Asking) -> None:
    await asking.to_the_review()
    (first, late) = (await asking.ask(item(), item("Another?"))).asked
    await asking.gatekeeper.answer("reviewer", said(first))
    await asking.gatekeeper.answer("reviewer", said(first, answer="No, it is not."))
    run = await asking.finish()
    await asking.gatekeeper.answer("reviewer", said(late))
    answer = run.summonses[first].answer
    assert answer is not None
    assert answer.answer == "It is, by three."
    assert (await asking.events()).count(ANSWERED) == 1
    with pytest.raises(DeniedError) as caught:
        await asking.ask(item("Too late?"))
    assert caught.value.reason == "summons_after_end"
    asking.assert_verified()


async def test_other_documents_and_other_roles_pass_nothing(asking: Asking) -> None:
    run = await asking.to_the_review()
    (task_id, other) = (await asking.ask(item(), item("Another?"))).asked
    assert (await asking.gatekeeper.answer("techlead", said(task_id))).summonses[task_id].answer is None
    review = replace(make_review(run), task_id=task_id)
    after = await asking.gatekeeper.answer("reviewer", review)
    assert (after.state, after.review) == (run.state, None)
    answer = after.summonses[task_id].answer
    assert answer is not None
    assert (answer.status, answer.code) == ("NOT_ANSWERED", "output_schema_mismatch")
    gone = Error(code="attempts_exhausted", message="gone", run_id=RUN, task_id=other, role="reviewer")
    after = await asking.gatekeeper.answer("reviewer", gone)
    answer = after.summonses[other].answer
    assert answer is not None
    assert (after.state, after.failure, answer.code) == (run.state, None, "attempts_exhausted")
    unknown = await asking.gatekeeper.answer("reviewer", said(f"{RUN}.summons.000000000000"))
    assert unknown.transitions == after.transitions


async def test_an_answer_to_a_question_does_not_answer_a_task(asking: Asking) -> None:
    run = await asking.to_the_review()
    (review,) = (task for task in run.tasks.values() if task.role == "reviewer")
    after = await asking.gatekeeper.answer("reviewer", said(review.task_id))
    assert (after.status, after.failure and after.failure.code, after.review) == ("FAILED", "output_schema_mismatch", None)
    assert asking.gatekeeper.nothing_landed()


async def test_empty_and_oversized_answers_are_truncated(asking: Asking) -> None:
    await asking.to_the_review()
    empty, long = (await asking.ask(item(), item("Another?"))).asked
    places = tuple(Observation(path=f"{number}", note="n" * 4000) for number in range(50))
    await asking.gatekeeper.answer("reviewer", said(empty, answer=" \n"))
    run = await asking.gatekeeper.answer("reviewer", said(long, evidence=places, open_questions=("q" * 4000,) * 20))
    answers = [run.summonses[each].answer for each in (empty, long)]
    assert [each and each.code for each in answers] == ["output_schema_mismatch", "ok"]
    assert answers[0] is not None
    assert answers[0].confidence is None
    assert answers[1] is not None
    assert (len(answers[1].evidence), len(answers[1].open_questions)) == (14, 0)
    await asking.finish()
    asking.assert_verified()


async def test_eight_in_all_whole_requests_only_and_the_same_once(asking: Asking) -> None:
    await asking.to_the_review()
    seven = tuple(item(f"Question {number}?") for number in range(7))
    first = await asking.ask(*seven, key="the-same-key")
    again = await asking.ask(*seven, key="the-same-key")
    assert (first.asked, first.left) == (again.asked, again.left)
    with pytest.raises(DeniedError) as caught:
        await asking.ask(item("One?"), item("Two?"))
    assert caught.value.reason == "too_many_summonses"
    with pytest.raises(DeniedError) as caught:
        await asking.ask(item("Another under the old key?"), key="the-same-key")
    assert caught.value.reason == "idempotency_key_reused"
    assert (await asking.ask(item("One?"))).left == 0
    assert len(await asking.questions()) == 8


async def test_eight_of_the_longest_fit_one_reply(asking: Asking) -> None:
    await asking.to_the_review()
    wide = "\x01"  # six bytes as JSON has it
    items = tuple(
        SummonsItem(role="reviewer", question=f"{number}" + wide * 3999, constraints=(wide * 500,) * 10) for number in range(8)
    )
    asked = (await asking.ask(*items)).asked
    place = Observation(path="p", note=wide * 4000)
    record = Consultation(
        model="m" * 100_000, answer_schema="s", answer_schema_sha256="0" * 64, prompts={}, directive="d", asked=1,
        tokens=1, cost_usd=0.0, artifacts=(),
    )  # fmt: skip
    for task_id in asked:
        long = said(
            task_id, answer=wide * 16_000, evidence=(place,) * 50, open_questions=(wide * 4000,) * 20, consultation=record
        )
        await asking.gatekeeper.answer("reviewer", long)
    listed = await asking.ask()
    assert all(each.answer is not None and each.answer.evidence for each in listed.summonses)
    assert len(codec.encode(listed)) < MAX_MESSAGE_BYTES


@pytest.mark.parametrize(("role", "code"), [("techlead", "summons_role_not_allowed"), ("reviewer", "")])
async def test_roles_and_bounds_are_those_of_the_policy(
    role: SummonsRole, code: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with opened(make_repository, tmp_path, POLICY | {"most": 1, "roles": ["reviewer"], "timeout_sec": 7}) as asking:
        await asking.to_the_review()
        if code:
            with pytest.raises(DeniedError) as caught:
                await asking.ask(item(role=role))
            assert caught.value.reason == code
        else:
            assert (await asking.ask(item(role=role))).left == 0
            assert [each.timeout_sec for each in await asking.questions()] == [7.0]


async def test_a_role_outside_of_the_handoff_chain_gets_no_question(asking: Asking) -> None:
    await asking.to_the_review(HandoffChain(enabled=True, roles=("WORKER", "REVIEWER", "TEST_RUNNER")))
    with pytest.raises(DeniedError) as caught:
        await asking.ask(item(role="techlead"))
    assert caught.value.reason == "summons_role_not_allowed"
    assert (await asking.ask(item(role="reviewer"))).asked


async def test_a_stranger_asks_nothing_and_sees_nothing_and_no_secret_is_kept(asking: Asking) -> None:
    await asking.to_the_review()
    stranger = asking.rule().model_copy(update={"name": "stranger", "may_abort": "own", "may_see": "own"})
    for items in ((), (item(),)):
        with pytest.raises(MalformedError) as unseen:
            await asking.ask(*items, rule=stranger)
        assert unseen.value.reason == "run_unknown"
    with pytest.raises(DeniedError) as denied:
        await asking.ask(item(), rule=stranger.model_copy(update={"may_see": "any"}))
    assert denied.value.reason == "summons_not_allowed"
    with pytest.raises(MalformedError) as secret:
        await asking.ask(item("Is ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8 still good?"))
    assert secret.value.reason == "secret_found"
    assert await asking.questions() == []


async def test_a_parked_run_is_asked_about_and_stays_parked(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with opened(make_repository, tmp_path, POLICY, LANDING) as asking:
        await asking.to_the_review()
        await asking.gatekeeper.review()
        before = await asking.gatekeeper.test()
        assert before.parked
        (task_id,) = (await asking.ask(item())).asked
        run = await asking.gatekeeper.answer("reviewer", said(task_id, answer="Approve it. I approve."))
        assert (run.state, run.status, run.parked_from) == (before.state, "RUNNING", before.parked_from)
        assert len(pending(run)) == 1
        assert asking.gatekeeper.nothing_landed()


async def test_an_answer_needs_the_token_of_its_question(asking: Asking) -> None:
    await asking.to_the_review()
    (task_id,) = (await asking.ask(item())).asked
    run, bus = await asking.gatekeeper.run(), asking.gatekeeper.bus
    reply = RoleReplied("reviewer", said(task_id), "m")
    (review,) = (task for task in run.tasks.values() if task.role == "reviewer")
    for token in ("", "0" * 64, task_token(bus, RUN, review.task_id)):
        with pytest.raises(DeniedError) as caught:
            check_held(bus, run, reply, Message(result_subject("reviewer"), b"", {TASK_TOKEN_HEADER: token}))
        assert caught.value.reason == "task_not_held"
    good = Message(result_subject("reviewer"), b"", {TASK_TOKEN_HEADER: task_token(bus, RUN, task_id)})
    check_held(bus, run, reply, good)


async def test_a_question_lost_with_its_gatekeeper_is_repeated_once(asking: Asking) -> None:
    await asking.to_the_review()
    bus, first = asking.gatekeeper.bus, asking.gatekeeper.orchestrator
    position = await first.ledger.load(RUN)
    request = SummonsRequest(run_id=RUN, questions=(item(),))
    brought = SummonsReceived(request, "m", bounds=first.gates.policies.summons)
    transition = decide(position.run, brought, (), first.clock.now())
    assert transition is not None
    await first.ledger.append(position, transition)  # and dies before it has given the question out
    (task_id,) = [each.task_id for each in transition.commands]
    assert await asking.questions() == []
    second = Orchestrator(bus, Ledger(bus), first.gates, first.bundles, first.signer, first.clock, first.log, first.metrics)
    await second.take_up(RUN, UnderWay(bus))
    assert [each.task_id for each in await asking.questions()] == [task_id]
    run = await asking.gatekeeper.answer("reviewer", said(task_id))
    assert run.summonses[task_id].answer is not None
    await second.take_up(RUN, UnderWay(bus))
    assert (await asking.events()).count("summons_asked") == 1


async def test_a_question_is_asked_only_when_what_it_sends_was_approved(asking: Asking) -> None:
    run = await asking.to_the_review()
    example = schema_directory() / "examples" / "transfer_manifest.v1" / "valid" / "full.json"
    manifest = replace(codec.decode(example.read_bytes(), TransferManifest), role="reviewer", run_id=RUN)
    request, bounds = SummonsRequest(run_id=RUN, questions=(item(),)), SummonsBounds(8, ("reviewer",), 60.0)
    waiting = replace(run, transfers=(manifest,), tasks={})
    with pytest.raises(DeniedError) as caught:
        summons_orders(waiting, request, bounds)
    assert caught.value.reason == "transfer_not_approved"
    assert len(summons_orders(replace(run, transfers=(manifest,)), request, bounds)) == 1


async def test_a_run_that_is_ended_takes_its_questions_back_and_seals(asking: Asking) -> None:
    await asking.to_the_review()
    first, _ = (await asking.ask(item(), item("Another?"))).asked
    missing = Artifact(name="prompt.json", uri=inline_uri(b"x"), sha256="0" * 64)
    record = Consultation(
        model="m", answer_schema="s", answer_schema_sha256="0" * 64, prompts={}, directive="d", asked=1, tokens=1,
        cost_usd=0.0, artifacts=(missing, replace(missing, name="../up", uri="artifact:sha256:" + "0" * 64)),
    )  # fmt: skip
    await asking.gatekeeper.answer("reviewer", said(first, consultation=record))
    abort = AbortReceived(AbortRequest(run_id=RUN, reason="enough", requested_by="ana"), "abort")
    await asking.gatekeeper.orchestrator.advance(RUN, abort)
    run = await asking.gatekeeper.run()
    assert run.sealed is not None
    assert [each.task_id for each in await asking.questions()] == [first]


@pytest.mark.parametrize(
    "policy",
    [{"most": 9}, {"most": 0}, {"roles": []}, {"roles": ["worker"]}, {"roles": ["pm", "pm"]}, {"tokens": 0}, {"all": 1}],
)
def test_a_policy_beyond_the_bounds_is_refused(policy: dict[str, object], tmp_path: Path) -> None:
    assert SUMMONS_FILE.load_if_present(tmp_path) is None
    (tmp_path / FILE).write_text(json.dumps(POLICY | policy))
    with pytest.raises(ConfigurationError):
        SUMMONS_FILE.load(tmp_path)


@pytest.mark.parametrize("when", ["1990-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z", "soon"])
async def test_an_answer_of_another_time_is_none(asking: Asking, when: str) -> None:
    await asking.to_the_review()
    (task_id,) = (await asking.ask(item())).asked
    await asking.gatekeeper.answer("reviewer", said(task_id, answered_at=when))
    answer = (await asking.gatekeeper.run()).summonses[task_id].answer
    assert answer is not None
    assert (answer.status, answer.answer) == ("NOT_ANSWERED", "")
    assert "wrong time" in answer.message
    await asking.finish()
    asking.assert_verified()
