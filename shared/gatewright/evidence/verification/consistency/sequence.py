"""2. Nothing happens before what it rests on, and time does not go back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling, moment_of
from gatewright.ledger import events as e
from gatewright.ledger.candidates import in_the_running
from gatewright.ledger.run import Run, TaskRole

TIME = "time_reversed"
TURN = "out_of_turn"
ATTEMPT = "attempt_contradicts"
#: In which state a role is given its task, and answers it; ``_turn_of`` has the exception.
STATES: dict[TaskRole, e.State] = {"pm": "S0", "techlead": "S1", "worker": "S2", "reviewer": "S3", "testrunner": "S4"}


def check_sequence(telling: Telling) -> Iterator[Contradiction]:
    """1. times of events, and of verdicts in them  2. attempts of verdicts  3. every event where its turn is."""
    last = telling.history.records[0].ts
    for moment in telling.moments[:1]:
        if not isinstance(moment.payload, e.GateJudged) or moment.payload.report.gate != "policy":
            yield moment.says(TURN, layout.EVENTS, layout.EVENTS, "the order was accepted, and no policy gate judged it")
    for moment in telling.moments:
        yield from _times(moment, last)  # 1
        yield from _verdict(moment)  # 2
        yield from _turn(moment)  # 3
        last = moment.record.ts


def _times(moment: Moment, last: str) -> Iterator[Contradiction]:
    when, before = moment.when, moment_of(last)
    if when is None or before is None:
        yield moment.says(TIME, layout.EVENTS, layout.EVENTS, f"{moment.record.ts[:40]!r} is no time with a zone")
    elif when < before:
        words = f"it happened {moment.record.ts}, and the event before it {last}"
        yield moment.says(TIME, layout.EVENTS, layout.EVENTS, words)
    if isinstance(moment.payload, e.GateJudged) and when is not None:
        report = moment.payload.report
        evaluated = moment_of(report.evaluated_at)
        if evaluated is None or evaluated > when:
            path = layout.gate_report(moment.gates, report.gate, report.task_id)
            words = f"the verdict was given {report.evaluated_at}, and recorded {moment.record.ts}"
            yield moment.says(TIME, path, layout.EVENTS, words)


def _verdict(moment: Moment) -> Iterator[Contradiction]:
    """A verdict is on the attempt that was under way."""
    if isinstance(moment.payload, e.GateJudged):
        report, run = moment.payload.report, moment.before
        path = layout.gate_report(moment.gates, report.gate, report.task_id)
        if report.attempt != run.attempt:
            words = f"the verdict is on attempt {report.attempt}, and attempt {run.attempt} was under way"
            yield moment.says(ATTEMPT, path, layout.EVENTS, words)


def _turn(moment: Moment) -> Iterator[Contradiction]:
    path, why = _answer(moment) or _step(moment) or (layout.EVENTS, "")
    if why:
        yield moment.says(TURN, path, layout.EVENTS, why)


def _answer(moment: Moment) -> tuple[str, str] | None:
    """What a role is asked or says: its place, and why it is out of turn; None for other events."""
    run = moment.before
    match moment.payload:
        case e.TaskDispatched(task_id=task_id, role=role):
            return layout.task_contract(task_id), _given(run, task_id, role)
        case e.ContractCompiled():
            return layout.CONTRACT, _answered(run, "pm", None)
        case e.PlanAccepted(plan=plan):
            return layout.task_plan(plan.task_id), _answered(run, "techlead", plan.task_id)
        case e.TaskFinished(result=result):
            task = run.tasks.get(result.task_id)
            fits = task is not None and task.role == "worker" and task.status == "RUNNING" and task.attempt == run.attempt
            why = "" if fits and run.state == "S2" else "no worker was at this task"
            return layout.task_result(result.task_id), why
        case e.ReviewReceived(report=review):
            return layout.REVIEW_REPORT, _answered(run, "reviewer", review.task_id)
        case e.TestsReceived(report=tests):
            return layout.TEST_REPORT, _answered(run, "testrunner", tests.task_id)
        case _:
            return None


def _step(moment: Moment) -> tuple[str, str] | None:
    """What the gatekeeper does itself, in the same way."""
    run = moment.before
    match moment.payload:
        case e.LocksTaken(repository_url=locked):
            ready, why = _may_lock(run), "it is not the time to take locks"
            if ready and locked not in {run.accepted.repository_key, run.accepted.repository_url}:
                ready, why = False, f"the locks are those of {locked}, and the run is in {run.accepted.repository_key}"
            return layout.EVENTS, "" if ready else why
        case e.LocksWaiting():
            return layout.EVENTS, "" if _may_lock(run) else "it is not the time to wait for locks"
        case e.CandidateComposed():
            ready = run.state == "S2" and run.candidate is None
            return layout.GIT_CANDIDATE, "" if ready else "it is not the time to compose"
        case e.CandidateChosen():
            states = [run.candidates[number] for number in in_the_running(run)]
            ready = run.state == "S4" and not run.chosen and bool(states) and all(state.tests_passed for state in states)
            return layout.EVENTS, "" if ready else "it is not the time to choose"
        case e.Landed():
            ready = run.state == "S4" and run.tests_passed and run.landed is None
            return layout.GIT_LANDED, "" if ready else "it landed before its tests had passed"
        case e.StateEntered(state=state):
            return layout.EVENTS, _entered(run, state)
        case e.RunFinished():
            ready = run.ended and not run.finished_at
            return layout.EVENTS, "" if ready else "the run ends once, when it has come to its last state"
        case _:
            return None


def _may_lock(run: Run) -> bool:
    """Before work is given out; where the paths were given up while people were asked, before it lands, or is repaired."""
    ready = (run.state == "S1" and run.plan is not None) or (run.state == "S4" and run.tests_passed) or run.state == "S5"
    return ready and run.locks is None


def _given(run: Run, task_id: str, role: TaskRole) -> str:
    task = run.tasks.get(task_id)
    if not _turn_of(run, role):
        return f"the {role} is not asked in state {run.state}"
    if role == "worker":
        return "" if task is not None and task.status == "PENDING" else "no plan has this task, or it was given out before"
    return "" if task is None and run.running(role) is None else f"the {role} was asked twice"


def _turn_of(run: Run, role: TaskRole) -> bool:
    together = role == "testrunner" and run.accepted.judging == "together" and not run.candidates
    return run.state == STATES[role] or (together and (run.parked_from or run.state) == "S3")


def _answered(run: Run, role: TaskRole, task_id: str | None) -> str:
    task = run.running(role)
    if task is None or not _turn_of(run, role):
        return f"the {role} was not at work"
    return (
        f"the {role} was asked for {task.task_id}, and this is about {task_id}" if task_id not in {None, task.task_id} else ""
    )


def _all(facts: Iterable[bool]) -> bool:
    """Whether there are any, and all are so."""
    found = tuple(facts)
    return bool(found) and all(found)


def _entered(run: Run, state: e.State) -> str:
    """What must be there before a state is entered."""
    match state:
        case "S1":
            there = run.contract is not None
        case "S2":
            there = run.locks is not None and (run.state == "S1" or bool(run.fix_ordered_at))
        case "S3":
            going = in_the_running(run)
            there = run.candidate is not None or _all(run.candidates[number].composed is not None for number in going)
        case "S4":
            going = in_the_running(run)
            there = run.review is not None or _all(run.candidates[number].reviewed for number in going)
        case "S6":
            there = run.landed is not None
        case _:
            there = True
    return "" if there else f"{state} is entered without what it rests on"
