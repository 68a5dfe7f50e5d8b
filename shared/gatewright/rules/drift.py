"""Spec drift: votes are void when the base branch or the change request under review moved, and requested again. Pure.

Every other source of a contract is pinned by a digest in it. The gatekeeper looks the refs up, and records what it found by
these rules. ``verify`` checks the recorded effect; where a ref was at that time is the gatekeeper's own statement.
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
    """``ref`` is at ``found`` now, empty when it is gone; ``files`` and ``commits`` are new since the known commit."""

    ref: str
    found: str
    files: tuple[bytes, ...] = ()
    commits: tuple[str, ...] = ()


def watched_refs(run: Run) -> dict[str, str]:
    """Return the refs that the open review of a run is about, each with the commit that its votes are about.

    1. The target branch of a change that has not landed.
    2. The head of the change request that it came from.
    """
    contract = run.contract
    if contract is None or run.ended or (run.parked_from or run.state) not in {"S3", "S4"} or not open_reviews(run):
        return {}
    found = {}
    if contract.repository is not None and contract.repository.target_ref:  # 1
        found[contract.repository.target_ref] = run.accepted.baseline_commit
    if contract.change_request is not None and contract.change_request.ref is not None:  # 2
        found[contract.change_request.ref] = contract.change_request.head
    return {ref: run.moved_refs.get(ref, commit) for ref, commit in found.items()}


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
        drift: what a ref has now.
        before_vote: record the move for a vote that follows, although no vote becomes void.
    """
    known, void = watched_refs(run).get(drift.ref), void_requests(run)
    if known in {None, drift.found or BRANCH_GONE} or not (void or before_vote) or not _is_relevant(run, drift):
        return None
    return TargetMoved(
        ref=drift.ref,
        expected=known or "",
        found=drift.found,
        files=tuple(map(display, drift.files[:MOST_NAMED])),
        more=max(0, len(drift.files) - MOST_NAMED),
        commits=drift.commits[:MOST_NAMED],
        requests=void,
    )


def drift_faults(run: Run, event: TargetMoved) -> Iterator[str]:
    """Yield what is wrong with a recorded move."""
    if (event.found or BRANCH_GONE) == event.expected or watched_refs(run).get(event.ref) != event.expected:
        yield "a ref of an open review was recorded as moved, and is not one that the review is about"
    if event.requests != void_requests(run):
        yield "the votes that were made void are not those on the open reviews of the change"


def _is_relevant(run: Run, drift: Drift) -> bool:
    """Return whether a review is about every move, or the contract's paths or the change request changed, or it is unknown."""
    source = run.contract.change_request if run.contract is not None else None
    if source is not None and source.ref == drift.ref:
        return True
    quorums = (quorum_of(run, asked.request) for asked in open_reviews(run))
    if any(quorum is not None and quorum.drift == "any" for quorum in quorums) or not drift.files:
        return True
    allowed = run.contract.allowed_paths if run.contract is not None else ()
    return any(covers(allowed, path) for path in drift.files)
