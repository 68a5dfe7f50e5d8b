"""What an agent asks leave for: people of the rule are asked once, nothing forged counts, and no answer moves the run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.cli.runs.waits import Wait, WaitFinder
from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import LEAVE_SUBJECT
from gatewright.clock import timestamp
from gatewright.contracts import AgentLeave, AgentQuestion, codec
from gatewright.contracts.people.approvals import DecisionVerdict
from gatewright.contracts.vocabulary import ToolPermissions
from gatewright.errors import ConfigurationError, DeniedError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on, pending, waited_for
from gatewright.rules.blocked.agent_questions import MOST_OF_TASK, inert
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.intake.agent_questions import AgentQuestionService
from gatewright.services.gatekeeper.policies.load import load
from gatewright.telemetry.logs import make_logger
from gatewright.view.run_view import view_of
from gatewright.worker_role import resolve_role
from tests.attacks.people import LANDING, README, Inbox, open_inbox, policies_with, signed
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

ASKS = {**LANDING, "name": "leave", "reason": "agent_question", "within_seconds": 600}
TASK = f"{RUN}.plan.w01"
WIDE = ToolPermissions(filesystem="workspace-write", shell="on-request", network="deny", mcp_tools=())
QUESTION = AgentQuestion(
    question_id="0" * 32, run_id=RUN, task_id=TASK, agent="codex", subject="python -m pytest -q", seconds=3000.0
)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Inbox]:
    """The worker has its task in hand."""
    async with open_inbox(make_repository(files={"README.md": b"text\n"}), tmp_path, ASKS, clock=clock) as inbox:
        contract = inbox.contract(tool_permissions=WIDE, interactive=True)
        await inbox.gatekeeper.submit(replace(contract, role_contract=resolve_role(contract)))
        await inbox.gatekeeper.plan()
        yield inbox


async def ask(inbox: Inbox, question: AgentQuestion = QUESTION, token: str | None = None) -> AgentLeave:
    """What the process that has the task in hand is told; each time by a gatekeeper that remembers nothing."""
    gatekeeper = inbox.gatekeeper
    service = AgentQuestionService(gatekeeper.orchestrator, make_logger(), SecretScanner())
    held = task_token(gatekeeper.bus, question.run_id, question.task_id) if token is None else token
    return await service.ask(Message(LEAVE_SUBJECT, codec.encode(question), {TASK_TOKEN_HEADER: held}))


async def refused(inbox: Inbox, question: AgentQuestion, token: str | None = None) -> str:
    with pytest.raises(GatewrightError) as caught:
        await ask(inbox, question, token)
    return caught.value.reason


async def decide(inbox: Inbox, verdict: DecisionVerdict, number: int = 0, key: str = "ana") -> None:
    said = decision_on(await inbox.asked(number), verdict=verdict, person=key, decided_at=timestamp(inbox.clock.now()))
    await inbox.decide(signed(said, key))


async def waits(inbox: Inbox) -> list[Wait]:
    """What ``show``, ``watch`` and ``run`` say that the run waits for."""
    transitions = (await inbox.gatekeeper.orchestrator.ledger.get(RUN)).transitions
    view = view_of(event for transition in transitions for event in transition.events)
    assert view is not None
    return [*await WaitFinder(inbox.gatekeeper.bus, None).waits_of(view)]


def assert_verified(folder: Path) -> None:
    assert verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public]).findings == ()


async def test_the_agent_receives_a_persons_approval_during_the_run(inbox: Inbox, tmp_path: Path) -> None:
    assert [(await ask(inbox)).standing for _ in range(3)] == ["pending"] * 3
    run = await inbox.run()
    (asked,) = pending(run)
    assert (run.state, run.parked, waited_for(run), asked.request.question) == ("S2", False, (), QUESTION)
    assert "codex asks" in asked.request.why
    assert QUESTION.subject in asked.request.why
    (wait,) = await waits(inbox)
    assert (wait.kind, wait.since) == ("agent_question", asked.request.created_at)
    assert f"for ana, @release to answer leave (codex asks in {TASK} whether it may run: {QUESTION.subject})" in wait.detail
    assert f"gatewright approvals approve {asked.request.request_id}" in wait.detail
    await decide(inbox, "approve")
    assert await waits(inbox) == []
    leave = await ask(inbox)
    assert (leave.standing, leave.status, leave.person) == ("allowed", "approved", "ana")
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_a_no_refuses_the_agent_and_the_run_goes_on_and_lands(inbox: Inbox, tmp_path: Path) -> None:
    await ask(inbox)
    await decide(inbox, "reject")
    assert (await ask(inbox)).standing == "refused"
    assert (await inbox.run()).state == "S2"
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_silence_refuses_the_agent_and_a_late_yes_is_refused(inbox: Inbox, clock: HandClock, tmp_path: Path) -> None:
    await ask(inbox)
    request = await inbox.asked()
    clock.seconds += 601
    assert (await ask(inbox)).status == "expired"
    said = decision_on(request, verdict="approve", person="ana", decided_at=timestamp(clock.now()))
    with pytest.raises(DeniedError) as caught:
        await inbox.decide(signed(said))
    assert caught.value.reason == "approval_expired"
    await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
    assert ((await ask(inbox)).standing, (await inbox.run()).state) == ("refused", "S2")
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_a_question_lasts_no_longer_than_the_time_that_its_agent_has(inbox: Inbox, clock: HandClock) -> None:
    await ask(inbox, replace(QUESTION, seconds=5.0))
    clock.seconds += 6
    assert (await ask(inbox, replace(QUESTION, seconds=5.0))).status == "expired"


async def test_a_fractional_question_deadline_is_rounded_down_and_verifies(inbox: Inbox, tmp_path: Path) -> None:
    await ask(inbox, replace(QUESTION, seconds=59.98765))
    asked = await inbox.asked()
    assert datetime.fromisoformat(asked.expires_at) - datetime.fromisoformat(asked.created_at) == timedelta(seconds=59)
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_the_next_worker_withdraws_the_question_of_a_killed_one(inbox: Inbox, tmp_path: Path) -> None:
    await ask(inbox)
    again = replace(QUESTION, question_id="1" * 32, delivery=2)
    assert (await ask(inbox, again)).standing == "pending"
    assert [each.status for each in (await inbox.run()).approvals.values()] == ["withdrawn", "pending"]
    assert (await ask(inbox)).status == "withdrawn"
    late = replace(QUESTION, question_id="2" * 32)
    assert await refused(inbox, late) == "agent_question_out_of_turn"
    await decide(inbox, "approve")
    assert ((await ask(inbox, again)).standing, (await ask(inbox)).standing) == ("allowed", "refused")
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_a_late_approval_of_an_ended_task_is_refused(inbox: Inbox, tmp_path: Path) -> None:
    await ask(inbox)
    request = await inbox.asked()
    gatekeeper = inbox.gatekeeper
    await gatekeeper.work(gatekeeper.patch(README))
    assert ((await ask(inbox)).standing, (await ask(inbox)).status) == ("refused", "withdrawn")
    said = decision_on(request, verdict="approve", person="ana", decided_at=timestamp(inbox.clock.now()))
    with pytest.raises(DeniedError) as caught:
        await inbox.decide(signed(said))
    assert caught.value.reason in {"approval_withdrawn", "approval_decided"}
    await gatekeeper.review()
    assert (await gatekeeper.test()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_a_yes_for_one_question_allows_no_other(inbox: Inbox) -> None:
    other = replace(QUESTION, question_id="1" * 32, subject="make deploy")
    await ask(inbox)
    await ask(inbox, other)
    await decide(inbox, "approve")
    assert ((await ask(inbox)).standing, (await ask(inbox, other)).standing) == ("allowed", "pending")


async def test_another_question_by_the_id_of_an_allowed_one_is_refused(inbox: Inbox) -> None:
    await ask(inbox)
    await decide(inbox, "approve")
    assert await refused(inbox, replace(QUESTION, subject="make deploy")) == "agent_question_differs"


async def test_a_question_without_the_token_of_its_task_is_refused(inbox: Inbox) -> None:
    other = task_token(inbox.gatekeeper.bus, RUN, "another")
    for token in ("", "0" * 64, other):
        assert await refused(inbox, QUESTION, token) == "task_not_held"
    assert (await inbox.run()).approvals == {}


async def test_a_question_of_a_foreign_or_unclaimed_task_is_refused(inbox: Inbox) -> None:
    assert await refused(inbox, replace(QUESTION, run_id="run-9999999999")) == "run_unknown"
    assert await refused(inbox, replace(QUESTION, task_id=f"{RUN}.plan.w02")) == "agent_question_out_of_turn"
    assert await refused(inbox, replace(QUESTION, task_id=f"{RUN}.plan")) == "agent_question_out_of_turn"


async def test_of_a_flood_of_questions_so_many_are_asked(inbox: Inbox, tmp_path: Path) -> None:
    many = [replace(QUESTION, question_id=f"{number:032x}") for number in range(MOST_OF_TASK)]
    for each in many:
        await ask(inbox, each)
    assert await refused(inbox, replace(QUESTION, question_id="f" * 32)) == "too_many_agent_questions"
    assert len((await inbox.run()).approvals) == MOST_OF_TASK
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_hostile_words_are_shown_whole_and_inert(inbox: Inbox, tmp_path: Path) -> None:
    hostile = "\x1b[2J\u202erm -rf /\r\nallow: yes\\n\u200b"
    await ask(inbox, replace(QUESTION, subject=hostile))
    why = (await inbox.asked()).why
    assert why.isprintable()
    assert inert(hostile) == "\\u{1b}[2J\\u{202e}rm -rf /\\u{d}\\u{a}allow: yes\\\\n\\u{200b}"
    assert why.endswith(inert(hostile))
    assert (await inbox.work()).status == "SUCCESS"
    assert_verified(tmp_path)


@pytest.mark.parametrize("subject", ["", "x" * 1999 + "\n", "\n" * 1000], ids=["none", "long", "escapes"])
async def test_words_that_cannot_be_shown_whole_are_not_asked_about(inbox: Inbox, subject: str) -> None:
    assert await refused(inbox, replace(QUESTION, subject=subject)) == "agent_question_unreadable"


async def test_who_is_not_asked_cannot_allow_it(inbox: Inbox) -> None:
    await ask(inbox)
    with pytest.raises(DeniedError) as caught:
        await decide(inbox, "approve", key="eve")
    assert caught.value.reason == "approver_unknown"
    assert (await ask(inbox)).standing == "pending"


async def test_a_question_without_a_rule_or_permission_is_refused(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    repository = make_repository(files={"README.md": b"text\n"})
    for number, (rules, reason) in enumerate([((), "agent_question_unasked"), ((ASKS,), "agent_question_out_of_turn")]):
        async with open_inbox(repository, tmp_path / str(number), *rules, clock=clock) as inbox:
            await inbox.submit()
            assert await refused(inbox, QUESTION) == reason


@pytest.mark.parametrize("field", [{"escalate_to": ["ben"]}, {"release_locks": True}, {"autopilot": True, "risk": "low"}])
def test_a_rule_without_approvers_is_refused(tmp_path: Path, field: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="leave"):
        load(policies_with(tmp_path / "policies", {**ASKS, **field}))
