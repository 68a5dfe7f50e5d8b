"""What can move a queue. An observation or a wish that needs no judgement is the event itself: it is appended if it may follow.

The gatekeeper repeats ``PolicyChanged`` while the digests differ, and ``EntryLeft`` while the run is queued. A push that may be
under way cannot be called back, so both are ignored until it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.queue.events import (
    BaseMoved,
    EntryLeft,
    EntryMoved,
    LandingRefused,
    PolicyChanged,
    PositionComposed,
    QueueHeld,
    QueueResumed,
)
from gatewright.queue.policy import Outcome
from gatewright.queue.state import Entry, Tip


@dataclass(frozen=True, slots=True)
class Create:
    """There is to be a queue for this branch, which stands at ``base``."""

    repository: str
    branch: str
    base: Tip
    policy_sha256: str


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A run passed all its gates. The policy decides which lane its entry gets, at most the one that was ``asked`` for."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class ConflictFound:
    """A run of a position does not fit the tree below it at ``paths``.

    A conflict with a run ahead is found before a position is formed, so this one is with the base: it stays whatever becomes
    of the runs ahead.
    """

    position: int
    run_id: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """How test ``number`` ended, as its report says: which tree and which policy it is about, and which tests failed.

    Whatever is not a report (skipped, cancelled, lost) has the outcome ``infrastructure``.
    """

    __test__ = False

    number: int
    tree: str
    policy_sha256: str
    outcome: Outcome
    failed: tuple[str, ...] = ()
    report_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Landed:
    """The branch is at ``commit``, by the push of this position."""

    position: int
    commit: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed."""


#: Inputs that are events: people remove, move, hold and resume; the gatekeeper composed, was refused, saw the branch move.
Observed = EntryLeft | EntryMoved | QueueHeld | QueueResumed | PositionComposed | LandingRefused | BaseMoved | PolicyChanged
Input = Create | Enqueue | ConflictFound | Tested | Landed | Tick | Observed
