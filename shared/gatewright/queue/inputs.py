"""The inputs of a queue. An observation or request that needs no decision is itself an event, appended if it may follow.

The gatekeeper repeats ``PolicyChanged`` while the digests differ, ``PolicyMissing`` while the branch has no policy, and
``EntryLeft`` while the run is queued. A push that may be under way cannot be revoked, so they do not affect what is landing.
"""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.contracts.queue_policy import Outcome
from gatewright.contracts.queue_receipt import Tip
from gatewright.queue.events import (
    BaseMoved,
    EntryLeft,
    EntryMoved,
    LandingRefused,
    PolicyChanged,
    PositionComposed,
    QueueHeld,
    QueueResumed,
    TestPartReported,
)
from gatewright.queue.state import Entry


@dataclass(frozen=True, slots=True)
class Create:
    """Create a queue for this branch, whose tip is ``base``."""

    repository: str
    identity: str
    branch: str
    base: Tip
    policy_sha256: str


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A run passed all its gates. The policy chooses the lane of its entry, which is never faster than ``asked``."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class ConflictFound:
    """A run of a position conflicts with the tree below it at ``paths``.

    Conflicts with runs ahead are found before a position is formed. So this one is with the base, and remains if the runs ahead
    leave.
    """

    position: int
    run_id: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """Test ``number`` ended. The fields are those of its report: tree, policy and failed tests.

    A test without a report (skipped, cancelled, lost) has the outcome ``infrastructure``.
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
class PolicyMissing:
    """No policy covers the branch any more. Every entry that is not landing leaves."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


#: Inputs that are events: actions of people (remove, move, hold, resume) and reports of the gatekeeper.
Observed = (
    EntryLeft
    | EntryMoved
    | QueueHeld
    | QueueResumed
    | PositionComposed
    | TestPartReported
    | LandingRefused
    | BaseMoved
    | PolicyChanged
)
Input = Create | Enqueue | ConflictFound | Tested | Landed | PolicyMissing | Tick | Observed
