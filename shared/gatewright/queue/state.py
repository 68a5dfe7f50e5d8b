"""The state of a queue: what its events so far add up to. Immutable; only events make the next state (``evolve``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Count, Document, NonEmpty, ObjectId, Priority, RunId, Timestamp
from gatewright.queue.composition import Change, Footprint
from gatewright.queue.policy import HoldReason, LeaveCode, Outcome

#: Stands for the name of a failed test where a red report has none.
UNNAMED = "(unnamed)"
#: What is kept of trees whose runs have all landed or left: a queue of the same changes finds them again.
_REMEMBERED_TREES = 256


class Tip(Document, frozen=True):
    """A commit and its tree."""

    commit: ObjectId
    tree: ObjectId


class Entry(Document, frozen=True):
    """A run that is to land. ``requeues``: how often its change was queued before, in earlier runs.

    ``asked`` is the lane that was asked for, ``lane`` the one that the policy gives. ``base`` is what the run was tested on.
    """

    run_id: RunId
    publisher: NonEmpty
    enqueued_at: Timestamp
    base: Tip
    changes: tuple[Change, ...]
    asked: Priority = "normal"
    lane: Priority = "normal"
    requeues: Count = 0


class Queued(Struct, frozen=True):
    """An entry in the queue. ``overtaken``: how many entries that were enqueued later went ahead of it."""

    entry: Entry
    footprint: Footprint
    overtaken: int = 0


class Position(Struct, frozen=True):
    """A candidate position: ``runs`` on top of ``ahead``, which are on top of ``base``.

    ``ahead`` are the runs that were assumed to land when it was formed. ``tree`` and ``commits``, one for each of ``runs``,
    are empty until it is composed.
    """

    number: int
    runs: tuple[str, ...]
    base: Tip
    ahead: tuple[str, ...] = ()
    tree: str = ""
    commits: tuple[str, ...] = ()


class TestRun(Struct, frozen=True):
    """A test under way."""

    __test__ = False

    number: int
    tree: str
    at: str


class Result(Struct, frozen=True):
    """What is known of a tree. ``reds`` counts its red reports; ``flaky``: it was red, and something green shows a flake.

    ``runs`` are the queued runs that it holds on top of the base, and ``names`` the failed tests that may be theirs: hints
    for what to test next, which decide nothing.
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
    """A queue after some events. ``entries`` are in the order in which they land; ``line`` are the positions under way."""

    repository: str
    branch: str
    policy_sha256: str
    base: Tip
    window: int
    entries: Mapping[str, Queued] = field(default_factory=dict)
    line: tuple[Position, ...] = ()
    #: The number of the position that is being pushed; 0 while none is.
    landing: int = 0
    #: Tests under way, by tree.
    tests: Mapping[str, TestRun] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    held: HoldReason | None = None
    #: How each run ended: ``landed``, or the code with which it left.
    ended: Mapping[str, LeaveCode | str] = field(default_factory=dict)
    #: How many positions were formed, tests and pushes requested, and pushes landed so far.
    positions: int = 0
    requests: int = 0
    pushes: int = 0
    landings: int = 0
    #: Tests in a row that were lost, and entries in a row that left because of their tests.
    lost_tests: int = 0
    red_entries: int = 0

    def position(self, number: int) -> Position | None:
        """The position of that number, while it is under way."""
        return next((each for each in self.line if each.number == number), None)

    def until(self, number: int) -> tuple[Position, ...]:
        """The positions up to that number, which is under way; none for 0."""
        last = next((index for index, each in enumerate(self.line, 1) if each.number == number), 0)
        return self.line[:last]

    def tip_before(self, position: Position) -> Tip | None:
        """What ``position`` goes on top of; None while the position ahead is not composed."""
        index = self.line.index(position)
        if not index:
            return self.base
        ahead = self.line[index - 1]
        return Tip(commit=ahead.commits[-1], tree=ahead.tree) if ahead.tree else None

    def is_landing(self, run_id: str) -> bool:
        """Whether the push of this run may be under way: it can be neither removed nor moved."""
        return any(run_id in each.runs for each in self.until(self.landing))

    def test_of(self, number: int) -> TestRun | None:
        """The test of that number, while it is under way."""
        return next((each for each in self.tests.values() if each.number == number), None)

    def runs_of(self, tree: str) -> frozenset[str]:
        """The queued runs that a composed tree of the line holds; none for the base."""
        for index, position in enumerate(self.line, 1):
            if position.tree == tree:
                return frozenset(runs_in(self.line[:index]))
        return frozenset()

    def with_line(self, line: tuple[Position, ...]) -> Queue:
        """The queue with other positions, without the tests of trees that are no longer under way."""
        trees = {self.base.tree, *(each.tree for each in line)}
        tests = {tree: test for tree, test in self.tests.items() if tree in trees}
        landing = self.landing if any(each.number == self.landing for each in line) else 0
        return replace(self, line=line, tests=tests, landing=landing)

    def with_result(self, tree: str, result: Result) -> Queue:
        """The queue with what is known of ``tree``; of trees without queued runs the latest are kept."""
        results = {**self.results, tree: result}
        idle = [each for each, known in results.items() if not known.runs and each not in {tree, self.base.tree}]
        for each in idle[:-_REMEMBERED_TREES]:
            del results[each]
        return replace(self, results=results)


def runs_in(line: tuple[Position, ...]) -> Iterator[str]:
    """The runs of positions, in order."""
    return (run_id for position in line for run_id in position.runs)
