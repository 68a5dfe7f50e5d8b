"""The decider of a queue: ``decide(queue, input, policy, now) -> events``. Every change of a queue is decided here.

Pure: no clock, no bus, no git. An ignored input (a duplicate, or an answer about something that is gone) gives no events.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from gatewright.contracts.queue_policy import LeaveCode, QueuePolicy
from gatewright.contracts.queue_receipt import Tip
from gatewright.queue import events as e
from gatewright.queue.draft import QueueDraft
from gatewright.queue.inputs import ConflictFound, Create, Enqueue, Input, Landed, PolicyMissing, Tested, Tick
from gatewright.queue.planning import conflicts_after_landing, place_of
from gatewright.queue.state import Entry, Queue, runs_in


def decide(queue: Queue | None, item: Input, policy: QueuePolicy, now: datetime) -> tuple[e.QueueEvent, ...]:
    """Return the events that ``item`` leads to; none where it is ignored.

    The events of one answer are appended together, on condition that ``queue`` reflects the whole stream.

    Args:
        queue: state of the queue; None before its first event.
        item: the input.
        policy: the policy in force.
        now: current time.

    Raises:
        IllegalQueueEventError: a defect of the decider. Record nothing then.
    """
    if queue is None:
        return (_create(item, policy),) if isinstance(item, Create) else ()
    draft = QueueDraft(queue, policy, now)
    _apply_input(draft, item)
    if draft.events or isinstance(item, Tick):
        draft.settle()
    return tuple(draft.events)


def _apply_input(draft: QueueDraft, item: Input) -> None:
    queue = draft.queue
    match item:
        case Enqueue(entry):
            _enqueue(draft, entry)
        case ConflictFound(number, run_id, paths):
            position = queue.position(number)
            if position is not None and not position.tree and run_id in position.runs:
                draft.add_legal(e.EntryLeft(run_id=run_id, code="conflict_with_ahead", paths=paths))
        case Tested():
            draft.record_test(item)
        case Landed(number, commit):
            if number == queue.landing and commit == _landing_tip(queue).commit:
                _record_landing(draft)
        case PolicyMissing():
            _evict_all(draft, "policy_changed")
        case Tick():
            draft.record_lost_tests()
        case e.BaseMoved(after=after) if queue.landing and after == _landing_tip(queue):
            _record_landing(draft)
        case e.QueueEvent():
            if draft.add_legal(item):
                _add_consequences(draft, item)


def _create(item: Create, policy: QueuePolicy) -> e.QueueCreated:
    return e.QueueCreated(
        repository=item.repository,
        identity=item.identity,
        branch=item.branch,
        policy_sha256=item.policy_sha256,
        base=item.base,
        window=policy.window.start,
    )


def _enqueue(draft: QueueDraft, entry: Entry) -> None:
    """Place an entry in the lane that the policy permits. The entry that it repeats leaves.

    A publisher can neither raise its own lane nor replace the run of another one. A run that is landing stays.
    """
    policy = draft.policy
    entry = replace(entry, lane=policy.lane_of(entry.publisher, entry.asked))
    enqueued = e.EntryEnqueued(entry=entry, ahead_of=place_of(draft.queue, entry, policy))
    if not draft.add_legal(enqueued):
        return
    earlier = draft.queue.entries.get(entry.repeats)
    if entry.requeues > policy.requeues:
        draft.add(e.EntryLeft(run_id=entry.run_id, code="requeue_exhausted"))
    elif earlier is not None and earlier.entry.publisher == entry.publisher and entry.repeats != entry.run_id:
        draft.add_legal(e.EntryLeft(run_id=entry.repeats, code="superseded", against=entry.run_id))


def _evict_all(draft: QueueDraft, code: LeaveCode) -> None:
    """Have every entry leave that is not landing."""
    for run_id in draft.queue.entries:
        draft.add_legal(e.EntryLeft(run_id=run_id, code=code))


def _landing_tip(queue: Queue) -> Tip:
    """Return the tip of the branch after the push that may be under way."""
    last = queue.until(queue.landing)[-1]
    return Tip(commit=last.commits[-1], tree=last.tree)


def _record_landing(draft: QueueDraft) -> None:
    """Record a landing. Entries that conflict with it leave."""
    queue = draft.queue
    after = _landing_tip(queue)
    runs = tuple(runs_in(queue.until(queue.landing)))
    draft.add(
        e.PositionLanded(
            number=queue.landing,
            runs=runs,
            before=queue.base,
            after=after,
            report_sha256=queue.results[after.tree].report_sha256,
            window=draft.policy.window_after(queue.window, landed=True),
        )
    )
    for run_id, against, paths in conflicts_after_landing(draft.queue, [queue.entries[run_id] for run_id in runs]):
        draft.add(e.EntryLeft(run_id=run_id, code="conflict_with_ahead", against=against, paths=paths))


def _add_consequences(draft: QueueDraft, event: e.QueueEvent) -> None:
    """Add the consequences of an observation. A missing, denied or rewritten branch holds the queue for a person."""
    match event:
        case e.LandingRefused(code="missing"):
            _evict_all(draft, "target_missing")
        case e.LandingRefused(code="approval_void", run_id=run_id):
            draft.add(e.EntryLeft(run_id=run_id, code="approval_void"))
        case e.LandingRefused(detail=detail):
            draft.hold("infrastructure", f"the push was denied: {detail}")
        case e.BaseMoved(descends=False):
            draft.hold("target_rewritten", f"{event.before} is not part of {event.after.commit}")
