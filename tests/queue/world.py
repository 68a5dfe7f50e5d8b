"""A queue with everything around it, in memory: trees, a branch, tests with a known truth, and the commands carried out."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.queue_receipt import Blob, Change, PositionReport, QueueReceipt, Tip
from gatewright.queue import events as e
from gatewright.queue.commands import Command, Compose, Land, Test, commands
from gatewright.queue.composition import Conflict, compose
from gatewright.queue.decide import decide
from gatewright.queue.inputs import ConflictFound, Create, Enqueue, Input, Landed, Tested
from gatewright.queue.receipt import read_receipt, receipt, receipt_bytes, report_digest
from gatewright.queue.state import Entry, Queue
from gatewright.rules.reports.position import outcome_of
from gatewright.rules.reports.receipt import LandingFacts, check_receipt
from tests.queue.git_objects import ObjectStore
from tests.queue.reports import command, part

START = datetime(2026, 3, 1, tzinfo=UTC)
DIGEST = "a" * 64
Tree = Mapping[str, Blob]


def digest(*parts: object) -> str:
    """A git-like id of anything."""
    return hashlib.sha1(repr(parts).encode(), usedforsecurity=False).hexdigest()


def blob(content: str) -> Blob:
    return Blob(mode="100644", object_id=digest(content))


def write(path: str, content: str, before: str | None = None) -> Change:
    """The change that writes ``content``, over the content ``before`` where there was some."""
    return Change(path=path, old=blob(before) if before is not None else None, new=blob(content))


def entry(run_id: str, *changes: Change, publisher: str = "default", **more: object) -> Entry:
    """An entry of a run; without changes it adds a file of its own."""
    base = Tip(commit=digest("start"), tree=digest("tree"))
    own = changes or (write(f"src/{run_id}.py", run_id),)
    return Entry(run_id=run_id, publisher=publisher, enqueued_at="2026-03-01T00:00:00.000Z", base=base, changes=own, **more)  # type: ignore[arg-type]


@dataclass
class Truth:
    """What is wrong with which runs. A tree is red while it holds the blobs of a bad one, or of two that break together.

    ``flaky``: how often each run still fails a test that it is part of, without cause. ``void``: runs whose approvals no longer
    hold when they are to land.
    """

    bad: frozenset[str] = frozenset()
    hanging: frozenset[str] = frozenset()
    together: frozenset[tuple[str, str]] = frozenset()
    flaky: dict[str, int] = field(default_factory=dict)
    void: frozenset[str] = frozenset()
    test_name: Callable[[str], str] = "tests/{}".format


class World:
    """One queue. Every event is checked with ``may_follow``, and every landing with its receipt."""

    def __init__(self, policy: QueuePolicy, truth: Truth | None = None, files: Mapping[str, str] | None = None) -> None:
        self.policy = policy
        self.truth = truth or Truth()
        self.now = START
        self.git = ObjectStore()
        self.trees: dict[str, Tree] = {}
        self.parents: dict[str, Tip | None] = {}
        self.tree_at: dict[str, str] = {}
        self.branch = self.commit(None, {path: blob(content) for path, content in (files or {}).items()}, "start")
        self.pushes: list[tuple[str, str]] = []
        self.entries: dict[str, Entry] = {}
        self.tests: list[Test] = []
        self.reports: dict[str, PositionReport] = {}
        self.receipts: list[QueueReceipt] = []
        self.done: dict[str, Input] = {}
        self.history: list[e.QueueEvent] = []
        self.queue: Queue
        self.deliver(Create("repository", "repository", "main", self.branch, DIGEST))

    def commit(self, parent: Tip | None, content: Tree, name: str) -> Tip:
        tree = self.git.tree(content)
        self.trees[tree] = content
        before = parent.commit if parent is not None else ""
        tip = Tip(commit=self.git.commit(tree, before, f"Change\n\nGatewright-Run: {name}\n"), tree=tree)
        self.parents[tip.commit] = parent
        self.tree_at[tip.commit] = tree
        return tip

    def deliver(self, item: Input) -> tuple[e.QueueEvent, ...]:
        """One input; the events that came of it."""
        queue = getattr(self, "queue", None)
        made = decide(queue, item, self.policy, self.now)
        for event in made:
            if queue is None:
                queue = e.evolve(None, event)
                continue
            assert event.may_follow(queue) == ""
            if isinstance(event, e.PositionLanded):
                self._check_landing(queue, event)
            queue = e.evolve(queue, event)
        self.history.extend(made)
        assert queue is not None
        self.queue = queue
        return made

    def fork(self) -> World:
        """The same world once more: what happens in one of them does not happen in the other."""
        other = copy.copy(self)
        other.truth = replace(self.truth, flaky=dict(self.truth.flaky))
        for name in ("pushes", "entries", "tests", "reports", "receipts", "done", "history"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def enqueue(self, *entries: Entry) -> None:
        for each in entries:
            self.entries[each.run_id] = each
            self.deliver(Enqueue(each))

    def due(self) -> list[Command]:
        """Commands that were not carried out yet."""
        return [each for each in commands(self.queue, self.policy) if each.command_id not in self.done]

    def carry_out(self, command: Command) -> Input:
        """What the gatekeeper finds when it carries out ``command``. A second time it gives the same answer."""
        if command.command_id not in self.done:
            self.done[command.command_id] = self._carry_out(command)
        return self.done[command.command_id]

    def run(self, limit: int = 10_000) -> World:
        """Carry out what is due, the first of it each time, until nothing is."""
        for _ in range(limit):
            due = self.due()
            if not due:
                return self
            self.deliver(self.carry_out(due[0]))
        raise AssertionError("the queue does not come to rest")

    def push(self, *changes: Change, descends: bool = True) -> e.BaseMoved:
        """The branch is moved from outside; what the gatekeeper sees of it."""
        before = self.branch
        content = {**self.trees[before.tree], **{each.path: each.new for each in changes if each.new is not None}}
        self.branch = self.commit(before if descends else None, content, f"push {len(self.pushes)}")
        self.pushes.append((before.commit, self.branch.commit))
        return e.BaseMoved(before=self.queue.base.commit, after=self.branch, descends=descends)

    def compose_onto(self, tree: str, changes: Iterable[Change]) -> dict[str, Blob] | Conflict:
        """The content of a tree with changes on top."""
        composed = compose(self.trees[tree], changes)
        if isinstance(composed, Conflict):
            return composed
        content = {**self.trees[tree], **composed.writes}
        return {path: each for path, each in content.items() if each is not None}

    def holds(self, tree: str, run_id: str) -> bool:
        """Whether the tree has what the run writes."""
        return all(self.trees[tree].get(each.path) == each.new for each in self.entries[run_id].changes)

    def is_red(self, tree: str) -> bool:
        """Whether a test of this tree must fail."""
        truth = self.truth
        bad = any(self.holds(tree, each) for each in (truth.bad | truth.hanging) & self.entries.keys())
        return bad or any(self.holds(tree, one) and self.holds(tree, other) for one, other in truth.together)

    def _carry_out(self, command: Command) -> Input:
        match command:
            case Compose():
                return self._compose(command)
            case Test():
                return self._test(command)
            case Land():
                void = next((run_id for run_id in command.runs if run_id in self.truth.void), None)
                if void is not None:
                    return e.LandingRefused(number=command.position, code="approval_void", run_id=void)
                before = self.branch
                if before.commit != command.before:
                    descends = self._descends(before, command.before)
                    return e.BaseMoved(before=command.before, after=before, descends=descends)
                position = self.queue.position(command.position)
                assert position is not None
                self.branch = Tip(commit=command.after, tree=position.tree)
                self.pushes.append((before.commit, command.after))
                return Landed(command.position, command.after)

    def _descends(self, tip: Tip, commit: str) -> bool:
        at: Tip | None = tip
        while at is not None and at.commit != commit:
            at = self.parents[at.commit]
        return at is not None

    def _compose(self, command: Compose) -> Input:
        tip, commits = command.onto, []
        for each in command.entries:
            content = self.compose_onto(tip.tree, each.changes)
            if isinstance(content, Conflict):
                return ConflictFound(command.position, each.run_id, content.paths)
            tip = self.commit(tip, content, each.run_id)
            commits.append(tip.commit)
        return e.PositionComposed(number=command.position, tree=tip.tree, commits=tuple(commits))

    def _test(self, test: Test) -> Tested:
        self.tests.append(test)
        truth, tree = self.truth, test.tree
        hangs = any(self.holds(tree, each) for each in truth.hanging & self.entries.keys())
        failed = {truth.test_name(each) for each in truth.bad & self.entries.keys() if self.holds(tree, each)}
        pairs = (pair for pair in truth.together if all(self.holds(tree, each) for each in pair))
        failed |= {truth.test_name("+".join(pair)) for pair in pairs}
        for run_id in () if hangs else test.runs:
            if truth.flaky.get(run_id):
                truth.flaky[run_id] -= 1
                failed.add(f"flaky/{run_id}")
        return self.answer(test, *failed, hangs=hangs)

    def answer(self, test: Test, *failed: str, hangs: bool = False) -> Tested:
        """The end of a test in which these tests failed, with its report."""
        ends = [command("hanging", exit_code=-9, timed_out=True)] if hangs else [command(each, exit_code=1) for each in failed]
        parts = [part(test.tree, command(each), runs=(each,)) for each in test.runs]
        parts.append(part(test.tree, command("standing"), *ends))
        outcome, names = outcome_of(test.tree, parts)
        report = PositionReport(
            repository="repository",
            branch="main",
            number=test.number,
            tree=test.tree,
            policy_sha256=test.policy_sha256,
            outcome=outcome,
            failed=names,
            parts=tuple(parts),
        )
        sha256 = report_digest(report)
        self.reports[sha256] = report
        return Tested(test.number, test.tree, test.policy_sha256, outcome, () if hangs else names, sha256)

    def facts_of(self, document: QueueReceipt) -> Iterator[LandingFacts]:
        """What each run of a landing knows of it."""
        for run_id, commit in document.commits().items():
            yield LandingFacts(
                run_id=run_id,
                repository="repository",
                branch="main",
                commit=commit,
                tree=self.tree_at[commit],
                previous=document.before.commit,
                changes=self.entries[run_id].changes,
                commands=frozenset({("run", run_id)}),
            )

    def _check_landing(self, queue: Queue, event: e.PositionLanded) -> None:
        facts = receipt(queue, event.number)
        reports = [self.reports[each.report_sha256] for each in facts.positions if each.report_sha256]
        document = read_receipt(receipt_bytes(facts, reports, self.git.needed_by(facts)))
        for each in self.facts_of(document):
            assert check_receipt(document, each) == ()
        self.receipts.append(document)


def play(world: World, choose: random.Random, *, arrivals: Sequence[tuple[float, Entry]], pushes: Sequence[float]) -> float:
    """Let time pass: tests take 0.8 to 1.2 units, all else takes none. The time at which the queue came to rest."""
    clock = 0.0
    waiting: list[tuple[float, int, Callable[[], Input]]] = []
    for index, (at, each) in enumerate(arrivals):
        world.entries[each.run_id] = each
        waiting.append((at, index, lambda each=each: Enqueue(each)))  # type: ignore[misc]
    for index, at in enumerate(pushes):
        path = f"outside/{index}"
        waiting.append((at, 1000 + index, lambda path=path: world.push(write(path, path))))  # type: ignore[misc]
    begun: set[str] = set()
    while True:
        for due in world.due():
            if due.command_id not in begun:
                begun.add(due.command_id)
                length = choose.uniform(0.8, 1.2) if isinstance(due, Test) else 0.0
                waiting.append((clock + length, 2000 + len(begun), lambda due=due: world.carry_out(due)))  # type: ignore[misc]
        if not waiting:
            return clock
        following = min(waiting, key=lambda each: each[:2])
        waiting.remove(following)
        clock = max(clock, following[0])
        world.now = START + timedelta(minutes=clock)
        world.deliver(following[2]())
