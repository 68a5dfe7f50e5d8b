"""Summonses: permitted questions to roles about an open run, their content, and valid answers. Pure.

An answer is additional evidence. No rule, no gate and no state of a run depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.clock import timestamp
from gatewright.contracts import SummonsAnswer, SummonsRequest, SummonsTask, TestReport, codec
from gatewright.contracts.people.approvals import AnswerLimits, ModelCritic
from gatewright.contracts.people.summons import MOST_SUMMONSES, MOST_WORDS, AdviceKind, SummonsItem, SummonsRole
from gatewright.contracts.routing import ModelTester
from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import Artifact, Budget, RoleName
from gatewright.errors import DeniedError
from gatewright.order_artifacts.hidden_acceptance import shown_to_makers
from gatewright.rules.approvals import pending
from gatewright.rules.critic import critic_id
from gatewright.rules.model_tester import tester_id
from gatewright.rules.people.signing_times import check_signing_time
from gatewright.rules.transfers import leave_for
from gatewright.run.candidates import reason_of
from gatewright.run.state import AskedSummons, Run

#: Roles as handoff chains name them.
_CHAINED: dict[SummonsRole, RoleName] = {"pm": "PM", "techlead": "TECH_LEAD", "reviewer": "REVIEWER"}
#: The policy file; only runs accepted under one can be asked about.
FILE = "summons.json"
#: The change that a role receives in addition to the brief.
CHANGE = "candidate.diff"
#: Reason codes of a role without a model, and of one that answered with another document.
NO_MODEL = "summons_no_model"
UNFIT = "output_schema_mismatch"
#: Sender of questions that the gatekeeper itself asks, and the seconds that their answer may take on its way.
GATEKEEPER = "gatekeeper"
GRACE = 15.0
_MOST_BRIEF = 16_000
_MOST_SPEC = 4_000
_MOST_LINES = 20
#: Maximum characters of an answer's places and open questions.
_MOST_BESIDE = 60_000


@dataclass(frozen=True, slots=True)
class SummonsBounds:
    """Limits of the operator's policy:

    ``most`` questions about a run, to these ``roles``, each within ``seconds`` and ``budget``.
    """

    most: int
    roles: tuple[SummonsRole, ...]
    seconds: float
    budget: Budget | None = None


def summons_orders(
    run: Run, request: SummonsRequest, bounds: SummonsBounds | None, publisher: str = DEFAULT_PUBLISHER
) -> tuple[SummonsTask, ...]:
    """Return the new tasks for a request; tasks that the run already has are left out.

    1. There is a policy, and was one when the run was accepted.
    2. The run is open.
    3. The policy lists the roles, and so does a handoff chain of the contract.
    4. Transfers of a role are approved, where that is required.
    5. The total is within the maximum.

    Raises:
        DeniedError: nothing is asked. Also for a key of another question.
    """
    if bounds is None or FILE not in run.accepted.policies:  # 1
        words = f"no role is asked about this run: the policy has no {FILE}, or had none when the run was accepted"
        raise DeniedError(words, code="summons_off")
    if run.ended:  # 2
        raise DeniedError(f"{run.run_id} has ended: read its bundle instead", code="summons_after_end")
    made = [_order(run, request, number, bounds, publisher) for number in range(len(request.questions))]
    fresh = [order for order in made if order.task_id not in run.summonses]
    for order in made:
        known = run.summonses.get(order.task_id)
        if known is not None and known.task.item != order.item:
            raise DeniedError("the key was used for another question about this run", code="idempotency_key_reused")
    for order in fresh:
        role = order.item.role
        if role not in bounds.roles:  # 3
            raise DeniedError(f"the policy has the {role} answer no questions: {FILE}", code="summons_role_not_allowed")
        if run.takers and _CHAINED[role] not in run.takers:
            words = f"the {role} is not in the handoff chain of the contract: {', '.join(run.takers)}"
            raise DeniedError(words, code="summons_role_not_allowed")
        if leave_for(run, role) is not None and not work_was_given_out(run):  # 4
            words = f"what the {role} may send to a provider of models is not approved yet"
            raise DeniedError(words, code="transfer_not_approved")
    if fresh and (asked := number_asked(run)) + len(fresh) > (most := most_of(bounds)):  # 5
        words = f"{asked} of {most} questions about {run.run_id} were asked, and these are {len(fresh)} more"
        raise DeniedError(words, code="too_many_summonses")
    return tuple(fresh)


def most_of(bounds: SummonsBounds | None) -> int:
    """Return the maximum number of questions about a run: never more than eight."""
    return min(bounds.most, MOST_SUMMONSES) if bounds is not None else 0


def number_asked(run: Run) -> int:
    """Return the number of questions that publishers asked."""
    return sum(asked.task.advice is None for asked in run.summonses.values())


def summons_id(run_id: str, request: SummonsRequest, publisher: str, number: int) -> str:
    """Return the id of a question, the same for a repeated request; ``number`` counts the request's items from 0."""
    key = codec.encode(replace(request, requested_by="")) if request.key is None else request.key.encode()
    whole = b"\0".join((publisher.encode(), key, str(number).encode()))
    return f"{run_id}.summons.{hashlib.sha256(whole).hexdigest()[:12]}"


def open_summonses(run: Run) -> tuple[AskedSummons, ...]:
    """Return the questions without an answer."""
    return tuple(asked for asked in run.summonses.values() if asked.answer is None)


def work_was_given_out(run: Run) -> bool:
    """Return whether a worker received a task: then all required approvals of transfers exist."""
    return any(task.role == "worker" and task.status != "PENDING" for task in run.tasks.values())


def summons_leave(run: Run, role: str) -> TransferLeave | None:
    """Return what the answer to a question may send: the same as tasks of that role, after approval."""
    return leave_for(run, role) if work_was_given_out(run) else None


def answer_to(asked: AskedSummons, answer: SummonsAnswer, now: datetime) -> SummonsAnswer:
    """Return ``answer`` as recorded at ``now``: with the question's ids, and only the fields of its outcome.

    An answer dated before its question or in the future becomes an error.
    """
    item = asked.task.item
    answer = replace(answer, run_id=asked.task.run_id, task_id=asked.task.task_id, role=item.role)
    if words := _wrong_time(asked, answer, now):
        answer = replace(answer, status="NOT_ANSWERED", code=UNFIT, message=words, answered_at=timestamp(now))
    undecided = asked.task.advice == "critic" and answer.critique is None
    lacks = "words" if not answer.answer.strip() else "recommendation" if undecided else ""
    if answer.status == "ANSWERED" and lacks:
        answer = replace(answer, status="NOT_ANSWERED", code=UNFIT, message=f"the {item.role} answered with no {lacks}")
    if answer.status == "ANSWERED":
        critique = answer.critique if asked.task.advice == "critic" else None
        missed = answer.missed if asked.task.advice == "qa" else ()
        return _truncate_answer(replace(answer, code="ok", critique=critique, missed=missed))
    code = reason_of(answer.code, "task_failed")
    return replace(answer, code=code, answer="", confidence=None, evidence=(), open_questions=(), critique=None, missed=())


def critic_order(run: Run, limits: ModelCritic) -> SummonsTask:
    """Return the question to the model critic about the doubts of the candidate."""
    doubts = run.routing.critic_triggers if run.routing is not None else ()
    question = "\n".join(f"{each.code}: {each.detail}" for each in doubts)[:4000]
    return _own_question(run, "critic", critic_id(run), question, limits)


def tester_order(run: Run, limits: ModelTester) -> SummonsTask:
    """Return the question to the model tester about the cases that the tests of the candidate miss."""
    return _own_question(run, "qa", tester_id(run), "Which cases of the change does no test cover?", limits)


def _own_question(run: Run, advice: AdviceKind, task_id: str, question: str, limits: AnswerLimits) -> SummonsTask:
    seconds = float(limits.timeout_sec)
    return SummonsTask(
        run_id=run.run_id,
        task_id=task_id,
        item=SummonsItem(role="reviewer", question=question),
        brief=brief_of(run),
        evidence=tuple(_evidence(run)),
        timeout_sec=seconds,
        publisher=GATEKEEPER,
        budget=Budget(wall_sec=seconds, tokens=limits.tokens, cost_usd=limits.cost_usd),
        advice=advice,
    )


def expired_advice(run: Run, now: datetime) -> AskedSummons | None:
    """Return a question of the gatekeeper whose role did not answer in time. The role's own limit ends earlier."""
    for asked in open_summonses(run):
        waited = (now - datetime.fromisoformat(asked.at)).total_seconds()
        if asked.task.advice is not None and waited >= asked.task.timeout_sec + GRACE:
            return asked
    return None


def _wrong_time(asked: AskedSummons, answer: SummonsAnswer, now: datetime) -> str:
    """Return the fault of an answer's time as text; empty when it is plausible."""
    try:
        check_signing_time(answer.answered_at, asked.at, now)
    except DeniedError as error:
        return f"the answer has a wrong time: {error.message}"[:MOST_WORDS]
    return ""


def _truncate_answer(answer: SummonsAnswer) -> SummonsAnswer:
    """Truncate places and open questions to the maximum: eight answers must fit into one reply."""
    room = _MOST_BESIDE
    places, questions = [], []
    for place in answer.evidence:
        room -= len(place.path) + len(place.note)
        if room < 0:
            break
        places.append(place)
    for question in answer.open_questions:
        room -= len(question)
        if room < 0:
            break
        questions.append(question)
    return replace(answer, evidence=tuple(places), open_questions=tuple(questions))


def brief_of(run: Run) -> str:
    """Return the ledger's record of an open run as the gatekeeper's text, without anything hidden from makers."""
    text = "\n".join(_state_lines(run))
    return text if len(text) <= _MOST_BRIEF else f"{text[:_MOST_BRIEF]}\n(cut)"


def _order(run: Run, request: SummonsRequest, number: int, bounds: SummonsBounds, publisher: str) -> SummonsTask:
    return SummonsTask(
        run_id=run.run_id,
        task_id=summons_id(run.run_id, request, publisher, number),
        item=request.questions[number],
        brief=brief_of(run),
        evidence=tuple(_evidence(run)),
        timeout_sec=bounds.seconds,
        publisher=publisher,
        requested_by=request.requested_by,
        budget=bounds.budget,
    )


def _evidence(run: Run) -> Iterator[Artifact]:
    if run.candidate is not None and (digest := run.candidate.patch.rpartition(":")[2]):
        yield Artifact(name=CHANGE, uri=run.candidate.patch, sha256=digest)


def _state_lines(run: Run) -> Iterator[str]:
    stands = f"{run.parked_from}, and waits for people" if run.parked else run.state
    yield f"The run stands in {stands}, in round {run.attempt}."
    yield f"Ordered: {run.accepted.user_request[:_MOST_SPEC]}"
    contract = run.contract
    if contract is not None:
        yield from _some("May change", contract.allowed_paths)
        shown = (
            f"{test.cmd} ({'must pass' if test.must_pass else 'is looked at'})"
            for test in contract.acceptance_tests
            if not test.hidden
        )
        yield from _some("Acceptance commands", shown)
    if run.plan is not None:
        yield from _some("Shards", (", ".join(shard.allowed_paths) for shard in run.plan.contracts))
    if run.candidate is not None:
        yield f"The change: {run.candidate.changed_files} files, {run.candidate.changed_lines} lines, tree {run.candidate.tree}"
    elif run.candidates:
        yield f"{len(run.candidates)} candidates are made, and none is chosen yet."
    else:
        yield "There is no change yet."
    if run.review is not None:
        found = (f"{each.path or '-'}:{each.line or '-'} {each.code}: {each.message}" for each in run.review.findings)
        yield f"Review: {run.review.verdict}"
        yield from _some("Findings", found)
    if run.tests is not None and contract is not None:
        report = shown_to_makers(run.tests, contract)
        if isinstance(report, TestReport):
            yield f"Tests: {report.status}"
            yield from _some("Commands", (f"{each.name}: exit code {each.exit_code}" for each in report.commands))
    if run.routing is not None:
        yield f"Risk: {run.routing.tier}"
    tested = run.summonses.get(tester_id(run))
    if tested is not None and tested.answer is not None:
        yield from _some("Cases that a model found missing in the tests", (each.case for each in tested.answer.missed))
    yield from _some("Asked of people", (f"{each.request.rule}: {each.request.why}" for each in pending(run)))


def _some(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a limited number of lines, and the number of omitted ones."""
    found = [" ".join(line.split())[:500] for line in lines]
    if found:
        yield f"{title}:"
        yield from (f"- {line}" for line in found[:_MOST_LINES])
        if len(found) > _MOST_LINES:
            yield f"- and {len(found) - _MOST_LINES} more"
