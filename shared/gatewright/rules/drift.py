"""Spec drift: votes on a change whose base branch moved are void, and the review is requested again. Pure.

The gatekeeper looks the branch up, and records what it found by these rules. ``verify`` checks the recorded effect; where the
branch was at that time is the gatekeeper's own statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatewright.git.paths import display
from gatewright.rules.approvals import is_about
from gatewright.rules.reviewing import REVIEW, latest_votes, quorum_of
from gatewright.run.events import TargetMoved
from gatewright.run.events.people import BRANCH_GONE
from gatewright.run.state import AskedApproval, Run
from gatewright.scope import covers

#: Files and commits that the record names.
MOST_NAMED = 20
_OPEN = frozenset({"pending", "approved"})


@dataclass(frozen=True, slots=True)
class Drift:
    """The base branch is at ``found`` now, empty when it is gone; ``files`` and ``commits`` are new since the known base."""

    found: str
    files: tuple[bytes, ...] = ()
    commits: tuple[str, ...] = ()


def base_ref(run: Run) -> str:
    """Return the branch that the run's review is about: the target of a change that has not landed; empty for none."""
    repository = run.contract.repository if run.contract is not None else None
    waits = (run.parked_from or run.state) == "S4" and not run.ended
    return (repository.target_ref or "") if waits and repository is not None and open_reviews(run) else ""


def known_base(run: Run) -> str:
    """Return the commit of the base branch that the open review is about."""
    return run.base or run.accepted.baseline_commit


def open_reviews(run: Run) -> tuple[AskedApproval, ...]:
    """Return the reviews of the current change that wait for votes, or have their consensus."""
    contract = run.contract
    return tuple(
        asked
        for asked in run.approvals.values()
        if contract is not None
        and asked.request.reason == REVIEW
        and asked.status in _OPEN
        and is_about(asked.request, run, contract)
    )


def void_requests(run: Run) -> tuple[str, ...]:
    """Return the ids of the open reviews that have votes of people."""
    return tuple(asked.request.request_id for asked in open_reviews(run) if latest_votes(run, asked.request))


def base_event(run: Run, drift: Drift, *, before_vote: bool) -> TargetMoved | None:
    """Return the event that makes votes void; None when nothing changes.

    Args:
        run: the run.
        drift: what the branch has now.
        before_vote: record the move for a vote that follows, although no vote becomes void.
    """
    ref, void = base_ref(run), void_requests(run)
    if not ref or (drift.found or BRANCH_GONE) == known_base(run) or not (void or before_vote) or not _is_relevant(run, drift):
        return None
    return TargetMoved(
        ref=ref,
        expected=known_base(run),
        found=drift.found,
        files=tuple(map(display, drift.files[:MOST_NAMED])),
        more=max(0, len(drift.files) - MOST_NAMED),
        commits=drift.commits[:MOST_NAMED],
        requests=void,
    )


def drift_faults(run: Run, event: TargetMoved) -> Iterator[str]:
    """Yield what is wrong with a recorded move."""
    if (
        not event.ref
        or (event.found or BRANCH_GONE) == event.expected
        or (event.ref, event.expected) != (base_ref(run), known_base(run))
    ):
        yield "the target branch of an open review was recorded as moved, and is not the one that the review is about"
    if event.requests != void_requests(run):
        yield "the votes that were made void are not those on the open reviews of the change"


def _is_relevant(run: Run, drift: Drift) -> bool:
    """Return whether a review is about every move of the branch, or the contract's paths changed, or it is unknown what did."""
    quorums = (quorum_of(run, asked.request) for asked in open_reviews(run))
    if any(quorum is not None and quorum.drift == "any" for quorum in quorums) or not drift.files:
        return True
    allowed = run.contract.allowed_paths if run.contract is not None else ()
    return any(covers(allowed, path) for path in drift.files)
