"""The policy of one queue (``queues.json``), and the closed lists of reasons and lanes."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, Positive, Priority, keep_one_spelling

#: The lanes, fastest first.
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
#: Reasons for which an entry leaves without landing.
HoldReason = Literal["infrastructure", "target_rewritten", "by_person", "repeated_red"]
#: Reasons for a hold. No position is composed, tested or landed until the queue is resumed.
Outcome = Literal["passed", "failed", "timed_out", "infrastructure"]
#: Outcomes of a test. ``passed`` needs a full report. ``infrastructure``: skipped, cancelled or lost.

#: Highest limit of requeues that a policy may set.
MOST_REQUEUES = 100
WindowSize = Annotated[int, Meta(ge=1, le=16)]


class Window(Document, frozen=True):
    """The maximum number of positions under way: one more after each landing, half as many after a red position."""

    start: WindowSize = 4
    """Size of a new queue."""
    least: WindowSize = 1
    """Smallest size after red positions."""
    most: WindowSize = 16
    """Largest size after landings."""


class HoldConditions(Document, frozen=True):
    """Conditions that hold the queue automatically.

    ``lost_tests``: maximum consecutive tests without a report. ``red_entries``: after so many consecutive red entries, the base
    is tested again, and the queue is held if the base is red.
    """

    lost_tests: Positive = 2
    red_entries: Positive = 8


class Timeouts(Document, frozen=True):
    """Time limits in seconds. ``test_s``: commands of one test. ``report_s``: wait for a report, until the test is lost."""

    test_s: Positive = 1800
    report_s: Positive = 3600


class QueuePolicy(Document, frozen=True):
    """The operator's settings for the queue of a branch."""

    standing_commands: tuple[tuple[NonEmpty, ...], ...] = ()
    """Commands that must succeed on every position, in addition to the acceptance commands of its runs."""
    window: Window = Window()
    batch_size: Annotated[int, Meta(ge=1, le=64)] = 8
    """Maximum entries of a position."""
    lanes: dict[str, Priority] = field(default_factory=dict)
    """Fastest lane that a publisher may request; ``normal`` for others."""
    overtaken_at_most: Count = 64
    """Maximum entries that may land before one that was enqueued earlier."""
    publisher_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Share of the window that one publisher may fill while others wait."""
    requeues: Annotated[int, Meta(ge=0, le=MOST_REQUEUES)] = 2
    """Maximum requeues of a change that left."""
    flaky: Literal["retest", "accept_successor"] = "retest"
    """Action when a green position contains a red one: test the red one again, or land the green one."""
    red_reports: Positive = 2
    """Number of reports that must name a failure of a run before it leaves. Missing reports come from new tests of its tree."""
    tests_of_entry: Positive = 20
    """Number of tests after which a run that is red alone on the branch leaves instead of being tested again."""
    text_merges: Literal["refuse"] = "refuse"
    """Treat two runs that change one file from the same blob as a conflict."""
    timeouts: Timeouts = Timeouts()
    hold: HoldConditions = HoldConditions()
    action_signers: tuple[NonEmpty, ...] = ()
    """People of the roster, or @group, who may act on the queue with their signature; empty: each operator, unsigned."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "publisher_share", "flaky", "text_merges")

    def lane_of(self, publisher: str, asked: Priority) -> Priority:
        """Return the lane of an entry: the requested one, or the fastest that its publisher may use."""
        return max(asked, self.lanes.get(publisher, "normal"), key=LANES.index)

    def window_after(self, window: int, *, landed: bool) -> int:
        """Return the window after a landing, or after a red position."""
        return min(window + 1, self.window.most) if landed else max(window // 2, self.window.least)


class QueueRule(Document, frozen=True):
    """The queues of some branches of some repositories."""

    repositories: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Addresses, prefixes of addresses that end in / or :, or * for all."""
    branches: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """Full names, such as refs/heads/main, or folders of them, such as refs/heads/release/*."""
    policy: QueuePolicy = QueuePolicy()
    """Settings of each of these queues."""


class QueueRules(Document, frozen=True):
    """The operator's settings of merge queues. The first rule that covers a branch applies; other branches have no queue."""

    version: Literal["1"]
    """Version of this format."""
    queues: Annotated[tuple[QueueRule, ...], Meta(max_length=1000)]
    """The rules, in order."""
