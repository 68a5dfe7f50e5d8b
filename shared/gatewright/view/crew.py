"""The crew lanes of a run: which role owns each part of it, and its progress (TheHood, crew lanes). Pure.

Lanes are derived from the ledger for display only. They grant no permission, and no gate reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gatewright.contracts import GateReport
from gatewright.run.state import AskedApproval, Run, RunTask, TaskRole

LaneAuthority = Literal["edit", "read_only", "runtime", "operator"]
LaneState = Literal["waiting", "at_work", "passed", "refused", "not_needed", "left"]


@dataclass(frozen=True, slots=True)
class CrewLane:
    """One lane. ``required``: the run cannot land without it. ``refs``: some of the tasks or requests with more detail."""

    name: str
    owner: str
    authority: LaneAuthority
    required: bool
    state: LaneState
    words: str = ""
    refs: tuple[str, ...] = ()


#: Maximum number of references of a lane.
_MOST_REFS: Final = 8
#: Title, permissions and gates of the lane of each role.
_ROLES: Final[dict[TaskRole, tuple[str, LaneAuthority, frozenset[str]]]] = {
    "pm": ("Contract", "read_only", frozenset({"policy"})),
    "techlead": ("Planner", "read_only", frozenset({"plan"})),
    "worker": ("Builder", "edit", frozenset({"diff", "citations", "integrated"})),
    "reviewer": ("Verifier", "read_only", frozenset({"reviewer"})),
    "testrunner": ("Runtime QA", "runtime", frozenset({"tests"})),
}


def crew_lanes(run: Run, gates: Sequence[GateReport] = ()) -> tuple[CrewLane, ...]:
    """Return the lanes of a run, in the order in which the run needs them.

    Args:
        run: the run.
        gates: every gate report of the run, in order.
    """
    last = {report.gate: report for report in gates}
    refusing = frozenset(name for name, report in last.items() if report.verdict == "FAIL")
    return tuple(_lanes(run, refusing))


def _lanes(run: Run, refusing: frozenset[str]) -> Iterator[CrewLane]:
    if run.request is not None:
        yield _of_role(run, "pm", refusing, passed=run.contract is not None)
    yield _of_role(run, "techlead", refusing, passed=run.plan is not None)
    yield _of_role(run, "worker", refusing, passed=run.candidate is not None)
    yield _of_role(run, "reviewer", refusing, passed=run.review is not None and run.review.verdict == "PASS")
    yield _of_role(run, "testrunner", refusing, passed=run.tests_passed)
    yield _people(run)
    yield _advisers(run)
    yield _integrator(run, refusing)
    yield _evidence(run)


def _of_role(run: Run, role: TaskRole, refusing: frozenset[str], *, passed: bool) -> CrewLane:
    name, authority, judged_by = _ROLES[role]
    every = [task for task in run.tasks.values() if task.role == role]
    tasks = [task for task in every if task.attempt == run.attempt] or every
    agents = dict.fromkeys(task.contract.assigned_agent.agent_id for task in tasks if task.contract is not None)
    at_work = not run.ended and any(task.status == "RUNNING" for task in tasks)
    refused = not judged_by.isdisjoint(refusing) or any(task.status == "FAILED" for task in tasks)
    return CrewLane(
        name=name,
        owner=", ".join(agents) or role,
        authority=authority,
        required=run.kind.asks(role),
        state=_state(run, at_work=at_work, passed=passed, refused=refused) if run.kind.asks(role) else "not_needed",
        words=_work_words(tasks) if run.kind.asks(role) else f"no part of a {run.kind.name} run",
        refs=tuple(task.task_id for task in tasks[:_MOST_REFS]),
    )


def _state(run: Run, *, at_work: bool, passed: bool, refused: bool) -> LaneState:
    if at_work:
        return "at_work"
    if refused:
        return "refused"
    return "passed" if passed else "left" if run.ended else "waiting"


def _work_words(tasks: list[RunTask]) -> str:
    if not tasks:
        return "nothing given out yet"
    counted = {status: sum(task.status == status for task in tasks) for status in ("SUCCESS", "RUNNING", "PENDING", "FAILED")}
    names = {"SUCCESS": "done", "RUNNING": "at work", "PENDING": "to come", "FAILED": "failed"}
    summary = ", ".join(f"{number} {names[status]}" for status, number in counted.items() if number)
    rounds = max(task.attempt for task in tasks)
    return f"{summary}; round {rounds}" if rounds > 1 else summary


def _people(run: Run) -> CrewLane:
    asked = [each for each in run.approvals.values() if each.request.stage != "beside"]
    return CrewLane(
        name="Operator",
        owner=", ".join(dict.fromkeys(who for each in asked for who in _whom(each))) or "people",
        authority="operator",
        required=bool(asked),
        state=_asked_state(run, asked),
        words="; ".join(f"{each.request.rule}: {each.status}" for each in asked[:_MOST_REFS]) or "no person was asked",
        refs=tuple(each.request.request_id for each in asked[:_MOST_REFS]),
    )


def _whom(asked: AskedApproval) -> tuple[str, ...]:
    return (asked.person,) if asked.person else asked.request.approvers


def _asked_state(run: Run, asked: list[AskedApproval]) -> LaneState:
    if not asked:
        return "not_needed"
    if any(each.status == "pending" for each in asked):
        return "left" if run.ended else "waiting"
    return "refused" if asked[-1].status in {"rejected", "expired"} else "passed"


def _advisers(run: Run) -> CrewLane:
    """Return the lane of roles that were consulted about the run. No gate waits for it."""
    answered = sum(each.answer is not None for each in run.summonses.values())
    asked = len(run.summonses)
    state: LaneState = "not_needed" if not asked else "passed" if answered == asked else "left" if run.ended else "at_work"
    return CrewLane(
        name="Advisers",
        owner=", ".join(dict.fromkeys(_roles(run))) or "roles beside the run",
        authority="read_only",
        required=False,
        state=state,
        words=f"{answered} of {asked} questions answered" if asked else "no role was asked beside the run",
        refs=tuple(run.summonses)[:_MOST_REFS],
    )


def _roles(run: Run) -> Iterable[str]:
    return (each.task.item.role for each in run.summonses.values())


def _integrator(run: Run, refusing: frozenset[str]) -> CrewLane:
    landed = run.landed
    state = _state(run, at_work=False, passed=landed is not None, refused="landing" in refusing)
    words = f"{landed.ref} at {landed.commit}" if landed is not None and landed.commit else "nothing landed"
    lands = run.kind.lands
    return CrewLane("Integrator", "gatekeeper", "runtime", required=lands, state=state if lands else "not_needed", words=words)


def _evidence(run: Run) -> CrewLane:
    sealed = run.sealed
    words = f"sealed by key {sealed.signer}" if sealed is not None else "sealed after the end"
    return CrewLane(
        "Completion", "gatekeeper", "runtime", required=True, state="passed" if sealed is not None else "waiting", words=words
    )
