"""The events of a queue, one class each: its fields, when it is legal, what it changes.

The decider appends only events that ``may_follow`` permits. ``evolve`` does not check that, so streams of older versions stay
readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from msgspec.structs import replace

from gatewright.contracts import MergeInstruction, codec
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.queue_policy import HoldReason, LeaveCode, Outcome
from gatewright.contracts.queue_receipt import Tip
from gatewright.contracts.vocabulary import Count, Document, NonEmpty, ObjectId, Positive, RunId, Sha256, Timestamp
from gatewright.errors import MalformedError
from gatewright.queue.composition import footprint_of
from gatewright.queue.state import UNNAMED, Entry, Position, Queue, Queued, Result, TestRun, runs_in


class QueueEvent(Document, frozen=True):
    """One event of a queue: its fields, when it is legal (``may_follow``), and what it changes (``apply``)."""

    #: Name of the event on the wire.
    event_type: ClassVar[str]

    def may_follow(self, queue: Queue) -> str:
        """Return why this event is illegal for ``queue`` now; empty when it is legal."""
        del queue
        return ""

    def apply(self, queue: Queue) -> Queue:
        """Return the queue after this event.

        Raises:
            MalformedError: ``bad_event``, the event names something that the queue does not have.
        """
        raise NotImplementedError


class QueueCreated(QueueEvent, frozen=True):
    """A queue was created. ``repository``: its URL. ``identity``: the repository, however its URL is spelled."""

    event_type: ClassVar[str] = "queue_created"
    repository: NonEmpty
    identity: NonEmpty
    branch: NonEmpty
    policy_sha256: Sha256
    base: Tip
    window: Positive

    def may_follow(self, queue: Queue) -> str:
        del queue
        return "the queue is created once"

    def apply(self, queue: Queue) -> Queue:
        raise MalformedError(f"{queue.branch} is created once", code="bad_event")

    def begin(self) -> Queue:
        """Return the new queue."""
        return Queue(self.repository, self.identity, self.branch, self.policy_sha256, self.base, self.window)


class EntryEnqueued(QueueEvent, frozen=True):
    """An entry was added. ``ahead_of``: the run that it is placed before, empty for the end.

    The entries that it is placed before are overtaken.
    """

    event_type: ClassVar[str] = "entry_enqueued"
    entry: Entry
    ahead_of: str = ""

    def may_follow(self, queue: Queue) -> str:
        run_id = self.entry.run_id
        return f"{run_id} was queued before" if run_id in queue.entries or run_id in queue.ended else ""

    def apply(self, queue: Queue) -> Queue:
        entry = Queued(self.entry, footprint_of(self.entry.changes))
        if not self.ahead_of:
            return replace(queue, entries={**queue.entries, self.entry.run_id: entry})
        entries: dict[str, Queued] = {}
        for run_id, each in queue.entries.items():
            if run_id == self.ahead_of:
                entries[self.entry.run_id] = entry
            entries[run_id] = replace(each, overtaken=each.overtaken + 1) if self.entry.run_id in entries else each
        return replace(queue, entries=entries)


class EntryMoved(QueueEvent, frozen=True):
    """A person moved an entry: before the run ``ahead_of``, or to the end. Positions that are not landing are formed again.

    ``detail``: the reason of the person. ``signed``: the action, where it was signed.
    """

    event_type: ClassVar[str] = "entry_moved"
    run_id: RunId
    ahead_of: str
    by: NonEmpty
    detail: str = ""
    signed: SignedDecision | None = None

    def may_follow(self, queue: Queue) -> str:
        if why := _why_out_of_turn(queue, self.signed):
            return why
        if self.run_id not in queue.entries or (self.ahead_of and self.ahead_of not in queue.entries):
            return "one of the entries is not queued"
        landing = queue.is_landing(self.run_id) or queue.is_landing(self.ahead_of)
        return "what is landing cannot be moved" if landing or self.run_id == self.ahead_of else ""

    def apply(self, queue: Queue) -> Queue:
        entries = {run_id: each for run_id, each in queue.entries.items() if run_id != self.run_id}
        order = list(entries)
        order.insert(order.index(self.ahead_of) if self.ahead_of else len(order), self.run_id)
        moved = replace(queue, entries={run_id: queue.entries[run_id] for run_id in order}, actions=queue.actions + 1)
        return moved.with_line(queue.until(queue.landing))


class EntryLeft(QueueEvent, frozen=True):
    """An entry ended without landing. Positions with it, and those behind them, are formed again.

    ``tests``: failed tests of the reason ``tests_failed``. ``against`` and ``paths``: run and paths of ``conflict_with_ahead``;
    the run is empty where the conflict is with another change of the branch. ``scope_after_merge`` has ``paths``, too, and
    ``approval_void`` those whose packages are others. ``superseded`` has the new run in ``against``. ``by``: the person who
    removed the entry, for the reason ``detail``. ``signed``: the person's action, where it was signed.
    """

    event_type: ClassVar[str] = "entry_left"
    run_id: RunId
    code: LeaveCode
    tests: tuple[str, ...] = ()
    against: str = ""
    paths: tuple[str, ...] = ()
    by: str = ""
    detail: str = ""
    signed: SignedDecision | None = None

    def may_follow(self, queue: Queue) -> str:
        if why := _why_out_of_turn(queue, self.signed):
            return why
        if self.run_id not in queue.entries:
            return f"{self.run_id} is not queued"
        return f"{self.run_id} is landing" if queue.is_landing(self.run_id) else ""

    @property
    def red(self) -> bool:
        """Return whether the entry left because of its tests."""
        return self.code in {"tests_failed", "tests_timed_out"}

    def apply(self, queue: Queue) -> Queue:
        entries = {run_id: each for run_id, each in queue.entries.items() if run_id != self.run_id}
        ended = {**queue.ended, self.run_id: self.code}
        kept = next((index for index, each in enumerate(queue.line) if self.run_id in each.runs), len(queue.line))
        results = {tree: self._without(result) for tree, result in queue.results.items()}
        reds = queue.red_entries + 1 if self.red else queue.red_entries
        actions = queue.actions + bool(self.by)
        after = replace(queue, entries=entries, ended=ended, results=results, red_entries=reds, actions=actions)
        return after.with_line(queue.line[:kept])

    def _without(self, result: Result) -> Result:
        """Remove this entry, and the tests that it failed, from the hints of a result."""
        if self.run_id not in result.runs:
            return result
        own = {*self.tests, UNNAMED} if self.red else set()
        return replace(result, runs=result.runs - {self.run_id}, names=result.names - own)


class PositionPlanned(QueueEvent, frozen=True):
    """A position is to be composed of ``runs``, on top of ``ahead``: the runs ahead, which are assumed to land."""

    event_type: ClassVar[str] = "position_planned"
    number: Positive
    runs: tuple[RunId, ...]
    base: Tip
    ahead: tuple[RunId, ...] = ()

    def may_follow(self, queue: Queue) -> str:
        if queue.held:
            return "the queue is held"
        ahead = tuple(runs_in(queue.line))
        if (self.number, self.base, self.ahead) != (queue.positions + 1, queue.base, ahead):
            return "it is not the next position"
        fits = self.runs and all(run_id in queue.entries and run_id not in ahead for run_id in self.runs)
        return "" if fits else "a position holds queued runs that no other position holds"

    def apply(self, queue: Queue) -> Queue:
        position = Position(self.number, self.runs, self.base, self.ahead)
        return replace(queue, line=(*queue.line, position), positions=self.number)


class PositionComposed(QueueEvent, frozen=True):
    """A position has a tree, and one commit for each of its runs, in order. The last commit has that tree.

    ``signed``: URI of the commits' bytes where they are signed, because a signature cannot be made again.
    """

    event_type: ClassVar[str] = "position_composed"
    number: Positive
    tree: ObjectId
    commits: tuple[ObjectId, ...]
    signed: str = ""

    def may_follow(self, queue: Queue) -> str:
        position = queue.position(self.number)
        if position is None or position.tree or queue.tip_before(position) is None:
            return "this position is not to be composed"
        return "" if len(position.runs) == len(self.commits) else "there is one commit for each run"

    def apply(self, queue: Queue) -> Queue:
        facts = {"tree": self.tree, "commits": self.commits, "signed": self.signed}
        line = tuple(replace(each, **facts) if each.number == self.number else each for each in queue.line)
        after = replace(queue, line=line)
        known = queue.results.get(self.tree)
        return after.with_result(self.tree, replace(known, runs=after.runs_of(self.tree))) if known is not None else after


class TestRequested(QueueEvent, frozen=True):
    """The tree of a position, or of the base, is to be tested."""

    __test__ = False
    event_type: ClassVar[str] = "test_requested"
    number: Positive
    tree: ObjectId
    at: Timestamp

    def may_follow(self, queue: Queue) -> str:
        known = queue.results.get(self.tree)
        if queue.held or self.tree in queue.tests or self.number != queue.requests + 1:
            return "this test is not to be requested now"
        doubted = self.tree == queue.base.tree and queue.red_entries
        return "the tree is known to be green" if known is not None and known.green and not doubted else ""

    def apply(self, queue: Queue) -> Queue:
        tests = {**queue.tests, self.tree: TestRun(self.number, self.tree, self.at)}
        return replace(queue, tests=tests, requests=self.number)


class TestPartReported(QueueEvent, frozen=True):
    """One of the tasks of a test was answered. ``report``: artifact of the answer, a test report or an error."""

    __test__ = False
    event_type: ClassVar[str] = "test_part_reported"
    number: Positive
    part: Count
    report: NonEmpty

    def may_follow(self, queue: Queue) -> str:
        test = queue.test_of(self.number)
        if test is None:
            return "this test is not under way"
        return "this part was reported before" if self.part in test.parts else ""

    def apply(self, queue: Queue) -> Queue:
        test = queue.test_of(self.number)
        if test is None:
            raise MalformedError(f"test {self.number} is not under way", code="bad_event")
        reported = replace(test, parts={**test.parts, self.part: self.report})
        return replace(queue, tests={**queue.tests, test.tree: reported})


class TestReported(QueueEvent, frozen=True):
    """A test ended. ``failed``: names of the failed tests. ``report_sha256``: digest of the full report."""

    __test__ = False
    event_type: ClassVar[str] = "test_reported"
    number: Positive
    tree: ObjectId
    outcome: Outcome
    failed: tuple[str, ...] = ()
    report_sha256: str = ""

    def may_follow(self, queue: Queue) -> str:
        test = queue.test_of(self.number)
        if test is None or test.tree != self.tree:
            return "this test is not under way"
        full = bool(self.report_sha256) and not self.failed
        return "" if full or self.outcome != "passed" else "only a full report without failures is green"

    def apply(self, queue: Queue) -> Queue:
        tests = {tree: test for tree, test in queue.tests.items() if tree != self.tree}
        if self.outcome == "infrastructure":
            return replace(queue, tests=tests, lost_tests=queue.lost_tests + 1)
        known = queue.results.get(self.tree)
        failed = frozenset(self.failed or ([] if self.outcome == "passed" else [UNNAMED]))
        result = Result(
            outcome=self.outcome,
            failed=failed,
            report_sha256=self.report_sha256,
            reds=(known.reds if known is not None else 0) + (self.outcome != "passed"),
            flaky=known is not None and known.flaky,
            runs=queue.runs_of(self.tree),
            names=failed,
        )
        cleared = self.tree == queue.base.tree and result.green
        reds = 0 if cleared else queue.red_entries
        after = replace(queue, tests=tests, lost_tests=0, red_entries=reds)
        return after.with_tests_counted(result.runs).with_result(self.tree, result)


class FlakeRecorded(QueueEvent, frozen=True):
    """``tests`` failed on ``tree``, and passed on ``green_tree``: the same tree again, or one that contains its runs."""

    event_type: ClassVar[str] = "flake_recorded"
    tree: ObjectId
    green_tree: ObjectId
    tests: tuple[str, ...]

    def may_follow(self, queue: Queue) -> str:
        green = queue.results.get(self.green_tree)
        return "" if self.tree in queue.results and green is not None and green.green else "nothing shows a flake"

    def apply(self, queue: Queue) -> Queue:
        return queue.with_result(self.tree, replace(queue.results[self.tree], flaky=True, names=frozenset()))


class PositionFailed(QueueEvent, frozen=True):
    """The red result of the first position is final. It and the positions behind it are formed again, in a smaller window."""

    event_type: ClassVar[str] = "position_failed"
    number: Positive
    window: Positive

    def may_follow(self, queue: Queue) -> str:
        if not queue.line or queue.line[0].number != self.number or queue.landing:
            return "what is ahead of this position is not resolved"
        result = queue.results.get(queue.line[0].tree)
        return "" if result is not None and not result.green else "this position is not red"

    def apply(self, queue: Queue) -> Queue:
        return replace(queue, window=self.window).with_line(())


class LandingRequested(QueueEvent, frozen=True):
    """The branch is to be moved from the base to the last commit of this position."""

    event_type: ClassVar[str] = "landing_requested"
    number: Positive

    def may_follow(self, queue: Queue) -> str:
        if queue.held or queue.landing:
            return "nothing may land now"
        position = queue.position(self.number)
        result = queue.results.get(position.tree) if position is not None else None
        return "" if result is not None and result.green else "this position is not green"

    def apply(self, queue: Queue) -> Queue:
        return replace(queue, landing=self.number, pushes=queue.pushes + 1)


class PositionLanded(QueueEvent, frozen=True):
    """The branch moved from ``before`` to ``after``, with ``runs`` in this order."""

    event_type: ClassVar[str] = "position_landed"
    number: Positive
    runs: tuple[RunId, ...]
    before: Tip
    after: Tip
    report_sha256: Sha256
    window: Positive

    def may_follow(self, queue: Queue) -> str:
        line = queue.until(queue.landing)
        if not line or line[-1].number != self.number:
            return "this position is not landing"
        after = Tip(commit=line[-1].commits[-1], tree=line[-1].tree)
        facts = (tuple(runs_in(line)), queue.base, after)
        return "" if (self.runs, self.before, self.after) == facts else "this is not what was to land"

    def apply(self, queue: Queue) -> Queue:
        line = queue.line[len(queue.until(self.number)) :]
        landed = frozenset(self.runs)
        return replace(
            queue,
            base=self.after,
            window=self.window,
            entries=_without_landed(queue, landed),
            ended={**queue.ended, **dict.fromkeys(self.runs, "landed")},
            results={tree: replace(each, runs=each.runs - landed) for tree, each in queue.results.items()},
            landings=queue.landings + 1,
            red_entries=0,
        ).with_line(line)


def _without_landed(queue: Queue, landed: Iterable[str]) -> dict[str, Queued]:
    """Return the other entries. Entries ahead of a landed one are marked as overtaken."""
    entries = dict(queue.entries)
    behind = set(landed)
    for run_id, each in queue.entries.items():
        if not behind:
            break
        if run_id in behind:
            behind.remove(run_id)
            del entries[run_id]
        else:
            entries[run_id] = replace(each, overtaken=each.overtaken + len(behind))
    return entries


class LandingRefused(QueueEvent, frozen=True):
    """Nothing was pushed. A branch that moved gives ``BaseMoved`` instead.

    The branch is ``missing``, the push was ``denied`` for the reason ``detail``, or the approvals of ``run_id`` no longer hold
    (``approval_void``).
    """

    event_type: ClassVar[str] = "landing_refused"
    number: Positive
    code: Literal["missing", "denied", "approval_void"]
    run_id: str = ""
    detail: str = ""

    def may_follow(self, queue: Queue) -> str:
        if not queue.landing or queue.landing != self.number:
            return "this position is not landing"
        about_run = self.code == "approval_void"
        return "" if about_run == queue.is_landing(self.run_id) else "the refusal is about a run that is not landing"

    def apply(self, queue: Queue) -> Queue:
        return replace(queue, landing=0)


class BaseMoved(QueueEvent, frozen=True):
    """The branch was moved outside the queue from ``before`` to ``after``. All positions are formed again.

    ``descends``: whether ``after`` descends from ``before``.
    """

    event_type: ClassVar[str] = "base_moved"
    before: ObjectId
    after: Tip
    descends: bool

    def may_follow(self, queue: Queue) -> str:
        known = self.before == queue.base.commit != self.after.commit
        return "" if known else "the base is another one"

    def apply(self, queue: Queue) -> Queue:
        return replace(queue, base=self.after, landing=0).with_tests_forgotten().with_line(())


class QueueHeld(QueueEvent, frozen=True):
    """Nothing is composed, tested or landed until the queue is resumed.

    ``by``: the person. ``detail``: what happened. ``signed``: the person's action, where it was signed.
    """

    event_type: ClassVar[str] = "queue_held"
    reason: HoldReason
    detail: str = ""
    by: str = ""
    signed: SignedDecision | None = None

    def may_follow(self, queue: Queue) -> str:
        return _why_out_of_turn(queue, self.signed) or ("the queue is held already" if queue.held else "")

    def apply(self, queue: Queue) -> Queue:
        actions = queue.actions + bool(self.by)
        return replace(queue, held=self.reason, hold_detail=self.detail, held_by=self.by, actions=actions)


class QueueResumed(QueueEvent, frozen=True):
    """A person resumed the queue, for the reason ``detail``. A red base is tested again. ``signed``: see ``QueueHeld``."""

    event_type: ClassVar[str] = "queue_resumed"
    by: NonEmpty
    detail: str = ""
    signed: SignedDecision | None = None

    def may_follow(self, queue: Queue) -> str:
        return _why_out_of_turn(queue, self.signed) or ("" if queue.held else "the queue is not held")

    def apply(self, queue: Queue) -> Queue:
        base = queue.base.tree
        results = {tree: each for tree, each in queue.results.items() if tree != base or each.green}
        resumed = replace(queue, held=None, hold_detail="", held_by="", actions=queue.actions + 1)
        return replace(resumed, lost_tests=0, red_entries=0, results=results)


def _why_out_of_turn(queue: Queue, signed: SignedDecision | None) -> str:
    """Return why a signed action does not apply to ``queue`` now; empty for an unsigned one. A replay never applies."""
    return queue.why_out_of_turn(codec.decode(signed.document.encode(), MergeInstruction).number) if signed is not None else ""


class PolicyChanged(QueueEvent, frozen=True):
    """The policy changed. Earlier test results no longer apply, and all positions are formed again."""

    event_type: ClassVar[str] = "policy_changed"
    policy_sha256: Sha256
    window: Positive

    def may_follow(self, queue: Queue) -> str:
        return "a position is landing" if queue.landing else ""

    def apply(self, queue: Queue) -> Queue:
        changed = replace(queue, policy_sha256=self.policy_sha256, window=self.window, results={}, tests={})
        return changed.with_tests_forgotten().with_line(())


#: Event class by name on the wire.
EVENTS: dict[str, type[QueueEvent]] = {
    kind.event_type: kind
    for kind in (
        QueueCreated,
        EntryEnqueued,
        EntryMoved,
        EntryLeft,
        PositionPlanned,
        PositionComposed,
        TestRequested,
        TestPartReported,
        TestReported,
        FlakeRecorded,
        PositionFailed,
        LandingRequested,
        PositionLanded,
        LandingRefused,
        BaseMoved,
        QueueHeld,
        QueueResumed,
        PolicyChanged,
    )
}


def evolve(queue: Queue | None, event: QueueEvent) -> Queue:
    """Return the queue after one more event.

    Raises:
        MalformedError: ``bad_event``, the event cannot be applied.
    """
    if queue is not None:
        return event.apply(queue)
    if not isinstance(event, QueueCreated):
        raise MalformedError("a queue begins with queue_created", code="bad_event")
    return event.begin()


def fold(events: Iterable[QueueEvent], queue: Queue | None = None) -> Queue | None:
    """Fold events into a queue; None without events."""
    for event in events:
        queue = evolve(queue, event)
    return queue
