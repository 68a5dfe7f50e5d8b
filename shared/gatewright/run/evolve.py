"""``evolve(run, record) -> run``: the only way a run changes.

Pure. Live operation, crash recovery, replay and every read model fold the same events with this function.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gatewright.contracts.records import OrchestratorEvent, Transition
from gatewright.errors import MalformedError
from gatewright.run import events as e
from gatewright.run.state import CandidateState, Run


def evolve(run: Run | None, record: OrchestratorEvent) -> Run:
    """Return the run after one more event.

    The last event of an expired run is sufficient alone. ``objection`` decides whether an event is also legal.

    Args:
        run: the run before it; None for the first event.
        record: the event.

    Raises:
        MalformedError: the run cannot continue with this event (``bad_event``): a first event other than ``run_accepted``, a
            state that may not come next, an event that may not follow the end, or an unknown object.
    """
    event = e.event_of(record)
    if isinstance(event, e.RunExpired):
        return event.end(run, record)
    if run is None:
        if not isinstance(event, e.RunAccepted):
            raise MalformedError("a run begins with run_accepted", code="bad_event")
        return event.begin(record)
    if run.ended and not event.after_end:
        raise MalformedError(f"{record.event_type} after the end of the run", code="bad_event")
    number = event.of_candidate(run)
    after = event.apply(run.seen_from(number), record)
    run = _with_candidate(run, number, after, event) if number else after
    if isinstance(event, e.GateJudged):
        run = replace(run, found_reasons=(*run.found_reasons, *event.reasons_to_ask(run)))
    return replace(run, seq=record.seq, head=record.hash, at=record.ts)


def objection(run: Run, event: e.RunEvent) -> str:
    """Return why the event is illegal for the run; empty when it is legal.

    The decider appends no event with an objection, and ``verify`` reports every recorded one with an objection.
    """
    return event.may_follow(run.seen_from(event.of_candidate(run)))


def fold(transitions: Iterable[Transition], run: Run | None = None) -> Run | None:
    """Return the run after a sequence of ledger messages; None for an empty sequence."""
    for transition in transitions:
        for record in transition.events:
            run = evolve(run, record)
        if run is not None:
            run = replace(run, transitions=transition.number)
    return run


def _with_candidate(run: Run, number: int, seen: Run, event: e.RunEvent) -> Run:
    """Return ``run`` after an event about a candidate; ``seen`` is the run after it as seen from that candidate."""
    before = run.candidates.get(number, CandidateState())
    state = CandidateState(
        composed=seen.candidate,
        review=seen.review,
        reviewed=before.reviewed or (isinstance(event, e.GateJudged) and event.passed("reviewer")),
        tests=seen.tests,
        tests_passed=seen.tests_passed,
        failure=before.failure or event.disqualifies(),
    )
    return replace(run, tasks={**run.tasks, **seen.tasks}, candidates={**run.candidates, number: state})
