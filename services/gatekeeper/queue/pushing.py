"""Pushes of positions: where the branch is, and the one compare-and-swap that moves it."""

from __future__ import annotations

from typing import Final

from gatewright.contracts.queue_receipt import Tip
from gatewright.errors import GitError
from gatewright.git.mirror import Mirror
from gatewright.queue.commands import Land
from gatewright.queue.events import BaseMoved, LandingRefused
from gatewright.queue.inputs import Landed
from gatewright.queue.state import Queue
from gatewright.services.gatekeeper.gates.landing.landing import push_commit

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
