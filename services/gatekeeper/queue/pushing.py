"""Pushes of positions by one compare-and-swap of the branch, and the reason code of a run that left its queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatewright.contracts.queue_policy import LeaveCode
from gatewright.contracts.queue_receipt import Tip
from gatewright.errors import GitError
from gatewright.git.mirror import Mirror
from gatewright.queue.commands import Land
from gatewright.queue.events import BaseMoved, EntryLeft, LandingRefused
from gatewright.queue.inputs import Landed
from gatewright.queue.state import Queue
from gatewright.services.gatekeeper.gates.landing.landing import push_commit
from gatewright.services.gatekeeper.gates.landing.queued import LeftQueue

#: Refusals that a repeated push would meet again. A person has to act.
DENIED: Final = frozenset(
    {"landing_refused", "landing_unsigned", "ref_in_the_way", "target_checked_out", "target_has_hooks", "target_not_confined"}
)


async def tip_of(mirror: Mirror, ref: str) -> Tip | None:
    """Return the commit of a branch and its tree, with both in the mirror; None without the branch. Raises GitError."""
    commit = await mirror.current(ref)
    if commit is None:
        return None
    await mirror.ensure(commit)
    return Tip(commit=commit, tree=await mirror.tree_of(commit))


async def base_moved(mirror: Mirror, queue: Queue, tip: Tip) -> BaseMoved:
    """Return the event for a branch that is at ``tip`` instead of the queue's base. Raises GitError."""
    await mirror.ensure(queue.base.commit)
    descends = await mirror.descends(tip.commit, queue.base.commit)
    return BaseMoved(before=queue.base.commit, after=tip, descends=descends)


async def push_position(mirror: Mirror, queue: Queue, command: Land) -> Landed | LandingRefused | BaseMoved:
    """Move the branch, and return what happened. It may be repeated.

    Raises:
        GitError: it cannot be known now.
    """
    try:
        await push_commit(command.after, queue.branch, command.before, mirror)
    except GitError as error:
        if error.reason in DENIED:
            return LandingRefused(number=command.position, code="denied", detail=error.message)
        if error.reason != "landing_conflict":
            raise
        tip = await tip_of(mirror, queue.branch)
        return LandingRefused(number=command.position, code="missing") if tip is None else await base_moved(mirror, queue, tip)
    return Landed(command.position, command.after)


#: Reason code of a run by the code with which its entry left.
CODES: Final[Mapping[LeaveCode, str]] = {
    "tests_failed": "merge_tests_failed",
    "tests_timed_out": "merge_tests_timed_out",
    "conflict_with_ahead": "merge_conflict",
    "scope_after_merge": "merge_scope",
    "approval_void": "merge_approval_void",
    "aborted": "merge_dequeued",
    "superseded": "merge_superseded",
    "target_missing": "target_missing",
    "policy_changed": "merge_policy_changed",
    "budget_exceeded": "merge_budget_exceeded",
    "requeue_exhausted": "merge_requeues_exhausted",
}
#: Names and paths that a text has; the events have all.
_SHOWN: Final = 5


def left_queue(event: EntryLeft, branch: str) -> LeftQueue:
    """Return how the run of an entry ends."""
    return LeftQueue(CODES[event.code], _leave_reason(event, branch.removeprefix("refs/heads/")))


def _leave_reason(event: EntryLeft, branch: str) -> str:
    match event.code:
        case "tests_failed":
            return f"on top of {branch} the tests fail: {_join_names(event.tests) or 'no report names one'}"
        case "tests_timed_out":
            return f"on top of {branch} the tests do not end in time"
        case "conflict_with_ahead":
            against = f"the change of {event.against}" if event.against else f"a commit on {branch}"
            return f"{_join_names(event.paths)} was also changed by {against}"
        case "scope_after_merge":
            return f"on top of {branch} its commit would change {_join_names(event.paths)}, outside its scope"
        case "approval_void":
            others = f": on top of {branch}, {_join_names(event.paths)} and the files beside it name other packages"
            return f"an approval of the change no longer holds{others if event.paths else ''}"
        case "aborted":
            reason = f": {event.detail}" if event.detail else ""
            return f"{event.by or 'an operator'} removed it from the merge queue{reason}"
        case "superseded":
            return f"{event.against or 'a later run'} replaces it"
        case "target_missing":
            return f"the repository has no {branch}"
        case "policy_changed":
            return f"queues.json no longer has a queue for {branch}"
        case "budget_exceeded":
            return f"on top of {branch} it is red again, and it took part in as many tests as tests_of_entry permits"
        case "requeue_exhausted":
            return "the change was queued as often as the policy permits"


def _join_names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
