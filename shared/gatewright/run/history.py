"""Read model of a run's events: the run, and facts that its state omits. Lists, pages, bundles and replies share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gatewright.contracts import Error, GateReport, OrchestratorEvent, Plan, ReviewReport, TaskResult, TestReport
from gatewright.contracts.consultation import Consultation
from gatewright.errors import MalformedError
from gatewright.reasons import Family, family_of
from gatewright.run import events as e
from gatewright.run.evolve import evolve
from gatewright.run.state import Run, TaskRole

#: Gates that judge the order: their verdicts stay valid in a fix round.
_LASTING = frozenset({"schema", "policy", "plan"})


_F = TypeVar("_F", bound="FollowedRun")


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run and its past, after some events. Times are RFC 3339; documents are by the id of their task.

    ``gates`` has every verdict in order, ``decisive`` those since the last fix round that the end depends on. ``dispatched`` is
    when each task was last dispatched. ``lock_holders`` are the runs that held its paths when it started to wait for them, at
    ``locks_since``. ``finished`` is the event of its end. ``families`` are those recorded with reason codes.
    """

    run: Run
    state_since: str = ""
    gates: tuple[GateReport, ...] = ()
    decisive: tuple[GateReport, ...] = ()
    dispatched: Mapping[str, str] = field(default_factory=dict)
    lock_holders: tuple[str, ...] = ()
    locks_since: str = ""
    finished: e.RunFinished | None = None
    families: Mapping[str, Family] = field(default_factory=dict)
    results: Mapping[str, TaskResult] = field(default_factory=dict)
    errors: Mapping[str, Error] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    reviews: Mapping[str, ReviewReport] = field(default_factory=dict)
    tests: Mapping[str, TestReport] = field(default_factory=dict)
    candidates: tuple[e.CandidateComposed, ...] = ()

    @property
    def failure_family(self) -> Family | None:
        """Recorded family of the reason for the end; None where the run has not failed."""
        failure = self.run.failure
        return family_of(failure.code, self.families.get(failure.code)) if failure is not None else None

    def consultations(self) -> Iterator[tuple[str, Consultation]]:
        """Yield the model consultations of roles, with their task ids."""
        asked = [(f"{self.run.run_id}.pm", self.run.contract.consultation if self.run.contract else None)]
        asked += [(task_id, plan.consultation) for task_id, plan in self.plans.items()]
        asked += [(task_id, review.consultation) for task_id, review in self.reviews.items()]
        asked += [(task_id, error.consultation) for task_id, error in self.errors.items()]
        answers = ((task_id, each.answer) for task_id, each in self.run.summonses.items())
        asked += [(task_id, answer.consultation) for task_id, answer in answers if answer is not None]
        return ((task_id, each) for task_id, each in asked if each is not None)


def follow(before: _F, record: OrchestratorEvent) -> _F:  # noqa: C901, PLR0912 - one line an event
    """Return the run and its past after one more event.

    Raises:
        MalformedError: as ``evolve``.
    """
    run = evolve(before.run, record)
    event = e.event_of(record)
    after = replace(before, run=run)
    match event:
        case e.StateEntered():
            return replace(after, state_since=record.ts)
        case e.GateJudged(report=report):
            gates, decisive = (*after.gates, report), (*after.decisive, report)
            return replace(after, gates=gates, decisive=decisive, families=_with_family(after, report))
        case e.TaskDispatched(task_id=task_id):
            return replace(after, dispatched={**after.dispatched, task_id: record.ts})
        case e.LocksWaiting(holders=holders):
            return replace(after, lock_holders=holders, locks_since=record.ts)
        case e.TaskFinished(result=result):
            return replace(after, results={**after.results, result.task_id: result})
        case e.TaskFailed(error=error):
            task_id = error.task_id or record.task_id or ""
            errors = {**after.errors, task_id: error} if task_id in run.tasks else after.errors
            return replace(after, errors=errors, families=_with_family(after, error))
        case e.PlanAccepted(plan=plan):
            return replace(after, plans={**after.plans, _last_task(run, "techlead"): plan})
        case e.CandidateComposed():
            return replace(after, candidates=(*after.candidates, event))
        case e.ReviewReceived(report=review):
            return replace(after, reviews={**after.reviews, _judged_task(run, "reviewer", review.task_id): review})
        case e.TestsReceived(report=tests):
            return replace(after, tests={**after.tests, _judged_task(run, "testrunner", tests.task_id): tests})
        case e.CandidateChosen(candidate=number):
            # Verdicts on other candidates are not about what lands.
            return replace(after, decisive=tuple(g for g in after.decisive if run.candidate_of_task(g.task_id) in {0, number}))
        case e.FixOrdered():
            return replace(after, decisive=tuple(gate for gate in after.decisive if gate.gate in _LASTING))
        case e.RunFinished():
            return replace(after, finished=event)
        case _:
            return after


def begin(record: OrchestratorEvent) -> FollowedRun:
    """Return the run after its first event, or after the last one of an expired run.

    Raises:
        MalformedError: as ``evolve``.
    """
    run = evolve(None, record)
    finished = None
    if run.expired is not None:
        status = "SUCCESS" if run.expired.state == "S6" else run.expired.state
        finished = e.RunFinished(status=status, code=run.expired.code, message=run.expired.message)
    return FollowedRun(run, state_since=run.finished_at or run.created_at, finished=finished)


def follow_all(records: Iterable[OrchestratorEvent]) -> FollowedRun | None:
    """Return the run and its past after some events; None without events.

    Raises:
        MalformedError: as ``evolve``.
    """
    after: FollowedRun | None = None
    for record in records:
        after = begin(record) if after is None else follow(after, record)
    return after


def _with_family(before: FollowedRun, judged: GateReport | Error) -> Mapping[str, Family]:
    return before.families if judged.family is None else {**before.families, judged.code: judged.family}


def _judged_task(run: Run, role: TaskRole, task_id: str | None) -> str:
    """Return the task of a judge's answer: its own for one of several candidates; otherwise the last one of the role."""
    last = _last_task(run, role)
    task = run.tasks.get(task_id or "")
    return task.task_id if task is not None and task.candidate and task.role == role else last


def _last_task(run: Run, role: TaskRole) -> str:
    """Return the last task of a serial role: the recorded id, not the one that the answer claims."""
    task = run.last_task(role)
    if task is None:
        raise MalformedError(f"an answer of the {role}, which was never asked", code="bad_event")
    return task.task_id
