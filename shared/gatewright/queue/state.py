"""The state of a queue: the fold of its events so far. Immutable; only events make the next state (``evolve``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gatewright.contracts.queue_policy import HoldReason, LeaveCode, Outcome
from gatewright.contracts.queue_receipt import Change, Tip
from gatewright.contracts.vocabulary import Count, Document, NonEmpty, Priority, RunId, Timestamp
from gatewright.queue.composition import Footprint

#: Placeholder for the name of a failed test where a red report names none.
UNNAMED = "(unnamed)"
#: Maximum results kept for trees whose runs have all landed or left. A queue of the same changes reuses them.
_REMEMBERED_TREES = 256


class Entry(Document, frozen=True):
    """A run that is to land. ``requeues``: how often its change was queued before, in earlier runs.

    ``repeats``: the run that it repeats, which leaves if it is still queued. Empty for a new order.
    ``asked``: the requested lane. ``lane``: the lane that the policy permits. ``base``: the base that the run was tested on.
    """

    run_id: RunId
    publisher: NonEmpty
    enqueued_at: Timestamp
    base: Tip
    changes: tuple[Change, ...]
    asked: Priority = "normal"
    lane: Priority = "normal"
    requeues: Count = 0
    repeats: str = ""


class Queued(Struct, frozen=True):
    """An entry in the queue. ``overtaken``: number of later entries that were placed before it.

    ``tests``: reports about trees that contain it, since the branch or the policy last changed from outside.
    """

    entry: Entry
    footprint: Footprint
    overtaken: int = 0
    tests: int = 0


class Position(Struct, frozen=True):
    """A candidate position: ``runs`` on top of ``ahead``, which are on top of ``base``.

    ``ahead``: runs that were assumed to land when it was formed. ``tree``, and ``commits`` with one commit for each run, are
    empty until it is composed. ``signed``: URI of the bytes of signed commits.
    """

    number: int
    runs: tuple[str, ...]
    base: Tip
    ahead: tuple[str, ...] = ()
    tree: str = ""
    commits: tuple[str, ...] = ()
    signed: str = ""


class TestRun(Struct, frozen=True):
    """A test under way. ``parts``: the artifact of each report that has arrived, by number of the part, from 0."""

    __test__ = False

    number: int
    tree: str
    at: str
    parts: Mapping[int, str] = field(default_factory=dict)


class Result(Struct, frozen=True):
    """The test results of a tree. ``reds``: number of red reports. ``flaky``: a green report shows that a red one was a flake.

    ``runs``: queued runs that the tree has on top of the base. ``names``: failed tests that they may have broken. Both only
    choose what to test next.
    """

    outcome: Outcome
    failed: frozenset[str] = frozenset()
    report_sha256: str = ""
    reds: int = 0
    flaky: bool = False
    runs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    @property
    def green(self) -> bool:
        return self.outcome == "passed"


class Queue(Struct, frozen=True):
    """A queue after some events. ``entries``: in landing order. ``line``: positions under way.

    ``repository``: the URL of the first run. ``identity``: the repository, however its URL is spelled.
    """

    repository: str
    identity: str
    branch: str
    policy_sha256: str
    base: Tip
    window: int
    entries: Mapping[str, Queued] = field(default_factory=dict)
    line: tuple[Position, ...] = ()
    #: Number of the position that is being pushed; 0 while there is none.
    landing: int = 0
    #: Tests under way, by tree.
    tests: Mapping[str, TestRun] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    held: HoldReason | None = None
    #: What happened, and the person who held the queue; empty while it is not held, or held automatically.
    hold_detail: str = ""
    held_by: str = ""
    #: Outcome of each ended run: ``landed``, or the code with which it left.
    ended: Mapping[str, LeaveCode | str] = field(default_factory=dict)
    #: Positions formed, tests requested, pushes requested, and pushes landed so far.
    positions: int = 0
    requests: int = 0
    pushes: int = 0
    landings: int = 0
    #: Consecutive lost tests, and consecutive entries that left because of their tests.
    lost_tests: int = 0
    red_entries: int = 0
    #: Actions of operators so far.
    actions: int = 0

    def position(self, number: int) -> Position | None:
        """Return the position with that number; None unless it is under way."""
        return next((each for each in self.line if each.number == number), None)

    def until(self, number: int) -> tuple[Position, ...]:
        """Return the positions up to that number, which must be under way; none for 0."""
        last = next((index for index, each in enumerate(self.line, 1) if each.number == number), 0)
        return self.line[:last]

    def tip_before(self, position: Position) -> Tip | None:
        """Return the tip below ``position``; None while the position ahead is not composed."""
        index = self.line.index(position)
        if not index:
            return self.base
        ahead = self.line[index - 1]
        return Tip(commit=ahead.commits[-1], tree=ahead.tree) if ahead.tree else None

    def is_landing(self, run_id: str) -> bool:
        """Return whether the push of this run may be under way. Such a run can be neither removed nor moved."""
        return any(run_id in each.runs for each in self.until(self.landing))

    def test_of(self, number: int) -> TestRun | None:
        """Return the test with that number; None unless it is under way."""
        return next((each for each in self.tests.values() if each.number == number), None)

    def why_out_of_turn(self, number: int) -> str:
        """Return why a signed action with that number does not apply; empty when it is the next action of this queue."""
        if number == self.actions + 1:
            return ""
        return f"it was signed as action {number} of the queue, and the next one is action {self.actions + 1}"

    def runs_of(self, tree: str) -> frozenset[str]:
        """Return the queued runs in a composed tree of the line; none for the base."""
        for index, position in enumerate(self.line, 1):
            if position.tree == tree:
                return frozenset(runs_in(self.line[:index]))
        return frozenset()

    def with_tests_counted(self, run_ids: frozenset[str]) -> Queue:
        """Return the queue after one more report about a tree that contains these runs."""
        entries = {run_id: replace(each, tests=each.tests + (run_id in run_ids)) for run_id, each in self.entries.items()}
        return replace(self, entries=entries)

    def with_tests_forgotten(self) -> Queue:
        """Return the queue with no tests counted, because something outside it makes new ones necessary."""
        return replace(self, entries={run_id: replace(each, tests=0) for run_id, each in self.entries.items()})

    def with_line(self, line: tuple[Position, ...]) -> Queue:
        """Return the queue with another line. Tests of trees that are no longer in the line are dropped."""
        trees = {self.base.tree, *(each.tree for each in line)}
        tests = {tree: test for tree, test in self.tests.items() if tree in trees}
        landing = self.landing if any(each.number == self.landing for each in line) else 0
        return replace(self, line=line, tests=tests, landing=landing)

    def with_result(self, tree: str, result: Result) -> Queue:
        """Return the queue with the result of ``tree``. Of trees without queued runs, only the latest results are kept."""
        results = {**self.results, tree: result}
        idle = [each for each, known in results.items() if not known.runs and each not in {tree, self.base.tree}]
        for each in idle[:-_REMEMBERED_TREES]:
            del results[each]
        return replace(self, results=results)


def runs_in(line: tuple[Position, ...]) -> Iterator[str]:
    """Yield the runs of positions, in order."""
    return (run_id for position in line for run_id in position.runs)
