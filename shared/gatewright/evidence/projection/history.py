"""A run's events in the order that a bundle needs them: what each task answered, and every verdict.

A ``Run`` keeps what the decider needs now and forgets the attempts before; here nothing is forgotten. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gatewright.contracts import Error, GateReport, OrchestratorEvent, Plan, ReviewReport, TaskResult, TestReport, Transition
from gatewright.contracts.consultation import Consultation
from gatewright.errors import MalformedError
from gatewright.rules.gate_evidence import POLICIES
from gatewright.run import events as e
from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class RunHistory:
    """An ended run and what its events hold, by task id. ``records`` ends before the seal; ``gates`` are in order.

    ``decisive`` are the gates' verdicts since the last order of the fix loop: those that the end rests on.
    """

    run: Run
    records: tuple[OrchestratorEvent, ...]
    results: Mapping[str, TaskResult]
    errors: Mapping[str, Error]
    plans: Mapping[str, Plan]
    reviews: Mapping[str, ReviewReport]
    tests: Mapping[str, TestReport]
    candidates: tuple[e.CandidateComposed, ...]
    gates: tuple[GateReport, ...]
    decisive: tuple[GateReport, ...]

    def policies(self) -> tuple[str, ...]:
        """The sha256 of the policies that it was accepted under, and of the others that a gate judged by, in their order.

        There are others where the operator changed them while the run went on.
        """
        seen = [found.digest for gate in self.gates for found in gate.evidence if found.name == POLICIES]
        return tuple(dict.fromkeys([self.run.accepted.policy_sha256, *seen]))

    def consultations(self) -> Iterator[tuple[str, Consultation]]:
        """What roles asked models, by the task that they did."""
        asked = [(f"{self.run.run_id}.pm", self.run.contract.consultation if self.run.contract else None)]
        asked += [(task_id, plan.consultation) for task_id, plan in self.plans.items()]
        asked += [(task_id, review.consultation) for task_id, review in self.reviews.items()]
        asked += [(task_id, error.consultation) for task_id, error in self.errors.items()]
        answers = ((task_id, each.answer) for task_id, each in self.run.summonses.items())
        asked += [(task_id, answer.consultation) for task_id, answer in answers if answer is not None]
        return ((task_id, each) for task_id, each in asked if each is not None)


def evidence_records(transitions: Iterable[Transition]) -> tuple[OrchestratorEvent, ...]:
    """The events that go into a bundle: all but those that tell of the bundle itself."""
    records = (record for transition in transitions for record in transition.events)
    return tuple(record for record in records if record.event_type not in e.ABOUT_BUNDLES)


def evidence_transitions(transitions: Iterable[Transition]) -> int:
    """How many ledger messages the bundle rests on: the number of the last one that holds more than the seal."""
    return max((t.number for t in transitions if evidence_records([t])), default=0)


def tell(run: Run, records: Sequence[OrchestratorEvent]) -> RunHistory:
    """Sort the events of ``run``, which is what they fold to.

    Raises MalformedError (``run_not_ended``) while the run is open, and for an event whose payload does not fit.
    """
    if not run.ended or not run.finished_at:
        raise MalformedError(f"run {run.run_id} has not ended", code="run_not_ended")
    story = _Story(run)
    for record in records:
        story.add(record)
    return RunHistory(
        run=run,
        records=tuple(records),
        results=story.results,
        errors=story.errors,
        plans=story.plans,
        reviews=story.reviews,
        tests=story.tests,
        candidates=tuple(story.candidates),
        gates=tuple(story.gates),
        decisive=tuple(story.decisive),
    )


class _Story:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.results: dict[str, TaskResult] = {}
        self.errors: dict[str, Error] = {}
        self.plans: dict[str, Plan] = {}
        self.reviews: dict[str, ReviewReport] = {}
        self.tests: dict[str, TestReport] = {}
        self.candidates: list[e.CandidateComposed] = []
        self.gates: list[GateReport] = []
        self.decisive: list[GateReport] = []
        self._last: dict[str, str] = {}

    def add(self, record: OrchestratorEvent) -> None:
        payload = e.event_of(record)
        match payload:
            case e.TaskDispatched(role=role, task_id=task_id):
                self._last[role] = task_id
            case e.TaskFinished(result=result):
                self.results[result.task_id] = result
            case e.TaskFailed(error=error):
                task_id = error.task_id or record.task_id or ""
                if task_id in self.run.tasks:
                    self.errors[task_id] = error
            case e.PlanAccepted(plan=plan):
                self.plans[self._asked("techlead")] = plan
            case e.CandidateComposed():
                self.candidates.append(payload)
            case e.ReviewReceived(report=review):
                self.reviews[self._answered("reviewer", review.task_id)] = review
            case e.TestsReceived(report=tests):
                self.tests[self._answered("testrunner", tests.task_id)] = tests
            case e.GateJudged(report=report):
                self.gates.append(report)
                self.decisive.append(report)
            case e.CandidateChosen(candidate=number):
                # What was said of the others was not about what lands.
                self.decisive = [gate for gate in self.decisive if self._candidate(gate.task_id) in {0, number}]
            case e.FixOrdered():
                # A new attempt is judged anew; what was asked for at the start (schema, policy, plan) still holds.
                self.decisive = [gate for gate in self.decisive if gate.gate in {"schema", "policy", "plan"}]
            case _:
                pass

    def _candidate(self, task_id: str | None) -> int:
        task = self.run.tasks.get(task_id or "")
        return task.candidate if task is not None else 0

    def _answered(self, role: str, task_id: str | None) -> str:
        """The task that a judge's answer is about: of one candidate among several, its own; else what the role was given."""
        last = self._asked(role)
        task = self.run.tasks.get(task_id or "")
        return task.task_id if task is not None and task.candidate and task.role == role else last

    def _asked(self, role: str) -> str:
        """The task that a serial role was last given: our own id, not the one that the answer claims."""
        try:
            return self._last[role]
        except KeyError:
            raise MalformedError(f"an answer of the {role}, which was never asked", code="bad_event") from None
