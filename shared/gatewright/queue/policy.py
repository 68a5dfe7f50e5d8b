"""The policy of one queue (``queues.json``), and the closed lists of reasons and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, Positive, Priority

#: The lanes, the fastest first.
LANES: tuple[Priority, ...] = get_args(Priority)
LeaveCode = Literal[
    "tests_failed",
    "tests_timed_out",
    "conflict_with_ahead",
    "scope_after_merge",
    "approval_void",
    "aborted",
    "superseded",
    "target_missing",
    "policy_changed",
    "budget_exceeded",
    "requeue_exhausted",
]
#: Why an entry leaves without landing.
HoldReason = Literal["infrastructure", "target_rewritten", "by_person", "repeated_red"]
#: Why a queue is held: no position is composed, tested or landed until it is resumed.
Outcome = Literal["passed", "failed", "timed_out", "infrastructure"]
#: How a test ended. Only a full report that passed is ``passed``. Skipped, cancelled and lost are ``infrastructure``.

WindowSize = Annotated[int, Meta(ge=1, le=16)]


class Window(Document, frozen=True):
    """How many positions are under way at once: one more after each landing, half as many after a red position."""

    start: WindowSize = 4
    least: WindowSize = 1
    most: WindowSize = 16


class HoldConditions(Document, frozen=True):
    """When the queue is held by itself.

    ``lost_tests``: after so many tests in a row without a report. ``red_entries``: after so many entries in a row that were red
    the base is tested again, and the queue is held if that is red.
    """

    lost_tests: Positive = 2
    red_entries: Positive = 8


class Timeouts(Document, frozen=True):
    """``test_s``: seconds for the commands of one test. ``report_s``: after so many seconds a test without a report is lost."""

    test_s: Positive = 1800
    report_s: Positive = 3600


class QueuePolicy(Document, frozen=True):
    """What an operator sets for the queue of a branch."""

    standing_commands: tuple[tuple[NonEmpty, ...], ...] = ()
    """What must succeed on every position, beside the acceptance commands of its runs."""
    window: Window = Window()
    batch_size: Annotated[int, Meta(ge=1, le=64)] = 8
    """The most entries of one position."""
    lanes: Mapping[str, Priority] = field(default_factory=dict)
    """The fastest lane that a publisher may ask for; ``normal`` where it is not named."""
    overtaken_at_most: Count = 64
    """How many entries may land before one that was enqueued earlier."""
    publisher_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """The part of the window that one publisher fills while others wait."""
    requeues: Count = 2
    """How often a change may be queued again after it left."""
    flaky: Literal["retest", "accept_successor"] = "retest"
    """What follows when a green position contains a red one: test the red one again, or land the green one."""
    red_reports: Positive = 2
    """How many reports must name a failure of a run before it leaves; its tree is tested again for the missing ones."""
    text_merges: Literal["refuse"] = "refuse"
    """Two runs that change one file from the same blob are a conflict."""
    timeouts: Timeouts = Timeouts()
    hold: HoldConditions = HoldConditions()

    def lane_of(self, publisher: str, asked: Priority) -> Priority:
        """The lane that an entry gets: the one asked for, or the fastest that its publisher may use."""
        return max(asked, self.lanes.get(publisher, "normal"), key=LANES.index)

    def window_after(self, window: int, *, landed: bool) -> int:
        """The window after a landing, or after a red position."""
        return min(window + 1, self.window.most) if landed else max(window // 2, self.window.least)
