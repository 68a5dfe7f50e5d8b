"""The draft of one answer: its events so far, and the consequences that follow without further input."""

from __future__ import annotations

from datetime import datetime, timedelta

from gatewright.clock import timestamp
from gatewright.contracts.queue_policy import HoldReason, LeaveCode, QueuePolicy
from gatewright.errors import GatewrightError
from gatewright.queue import events as e
from gatewright.queue.inputs import Tested
from gatewright.queue.planning import next_group
from gatewright.queue.state import UNNAMED, Position, Queue, Result, TestRun, runs_in


class IllegalQueueEventError(GatewrightError):
    """The decider tried to append an event that the event's own rule forbids."""


class QueueDraft:
    """The events of one answer, and the queue after them."""

    def __init__(self, queue: Queue, policy: QueuePolicy, now: datetime) -> None:
        self.queue = queue
        self.policy = policy
        self.events: list[e.QueueEvent] = []
        self._now = now

    def add(self, event: e.QueueEvent) -> None:
        """Add an event.

        Raises:
            IllegalQueueEventError: the event may not follow; a defect of the decider.
        """
        if why := event.may_follow(self.queue):
            raise IllegalQueueEventError(f"the queue of {self.queue.branch} refuses {event.event_type}: {why}")
        self.events.append(event)
        self.queue = event.apply(self.queue)

    def add_legal(self, event: e.QueueEvent) -> bool:
        """Add an event if it is legal, and return whether it was added."""
        legal = not event.may_follow(self.queue)
        if legal:
            self.add(event)
        return legal

    def hold(self, reason: HoldReason, detail: str, by: str = "") -> None:
        """Hold the queue. A queue that is already held keeps its reason."""
        self.add_legal(e.QueueHeld(reason=reason, detail=detail, by=by))

    def record_test(self, item: Tested) -> None:
        """Record the end of a test.

        A report about another tree or policy is no result, and neither is a pass without a full report.
        """
        queue = self.queue
        test = queue.test_of(item.number)
        if test is None:
            return
        about = (item.tree, item.policy_sha256) == (test.tree, queue.policy_sha256)
        full = bool(item.report_sha256) and not item.failed
        if not about or (item.outcome == "passed" and not full):
            self._record_lost(test)
            return
        known = queue.results.get(test.tree)
        if item.outcome == "infrastructure":
            self._record_lost(test)
            return
        self.add(
            e.TestReported(
                number=test.number,
                tree=test.tree,
                outcome=item.outcome,
                failed=tuple(sorted(set(item.failed))),
                report_sha256=item.report_sha256,
            )
        )
        if item.outcome == "passed" and known is not None and not known.flaky:
            self._record_flake(test.tree, test.tree, known)

    def record_lost_tests(self) -> None:
        """Record tests with an overdue report as lost. A lost test evicts no entry."""
        due = self._now - timedelta(seconds=self.policy.timeouts.report_s)
        for test in tuple(self.queue.tests.values()):
            if datetime.fromisoformat(test.at) <= due:
                self._record_lost(test)

    def settle(self) -> None:
        """Add consequences until there are no more: landings, verdicts on red positions, new positions, tests."""
        while not self.queue.held and (
            self._request_landing() or self._judge_front() or self._plan_position() or self._request_next_test()
        ):
            pass

    def _record_lost(self, test: TestRun) -> None:
        self.add(e.TestReported(number=test.number, tree=test.tree, outcome="infrastructure"))
        if self.queue.lost_tests >= self.policy.hold.lost_tests:
            self.hold("infrastructure", f"{self.queue.lost_tests} tests in a row gave no report")

    def _record_flake(self, tree: str, green_tree: str, red: Result) -> bool:
        self.add(e.FlakeRecorded(tree=tree, green_tree=green_tree, tests=tuple(sorted(red.failed - {UNNAMED}))))
        return True

    def _request_test(self, tree: str) -> bool:
        self.add(e.TestRequested(number=self.queue.requests + 1, tree=tree, at=timestamp(self._now)))
        return True

    def _request_landing(self) -> bool:
        """Land the furthest green position. A red position ahead of it blocks it, unless the policy accepts its flake."""
        furthest = 0
        for position in self.queue.line if not self.queue.landing else ():
            result = self.queue.results.get(position.tree)
            if result is not None and result.green:
                furthest = position.number
            elif result is not None and not (result.flaky and self.policy.flaky == "accept_successor"):
                break
        if furthest:
            self.add(e.LandingRequested(number=furthest))
        return bool(furthest)

    def _judge_front(self) -> bool:
        """Act on a red first position, once no test behind it is under way.

        A green position behind it shows that the result is a flake. A position of several entries is split.
        """
        queue = self.queue
        front = queue.line[0] if queue.line and not queue.landing else None
        result = queue.results.get(front.tree) if front is not None else None
        if front is None or result is None or result.green or queue.tests:
            return False
        trees = (each.tree for each in queue.line)
        green = next((tree for tree in trees if tree in queue.results and queue.results[tree].green), "")
        if green and not result.flaky:
            return self._record_flake(front.tree, green, result)
        if result.flaky and self._may_retest(result.reds):
            return self._retest_front(front)
        return self._fail_front(front) if len(front.runs) > 1 else self._judge_single(front, result)

    def _judge_single(self, front: Position, result: Result) -> bool:
        """Evict a single red entry if the base is green without it and enough reports name its failure."""
        queue = self.queue
        base = queue.results.get(queue.base.tree)
        doubted = queue.red_entries >= self.policy.hold.red_entries
        if base is None or (doubted if base.green else self._may_retest(base.reds)):
            return self._request_test(queue.base.tree)
        if not base.green:
            self.hold("repeated_red", "the branch is red without any entry")
            return True
        (run_id,) = front.runs
        named = [
            each
            for tree, each in queue.results.items()
            if tree != front.tree and run_id in each.runs and each.names & result.failed
        ]
        if self._may_retest(result.reds + len(named)):
            return self._retest_front(front)
        self._fail_front(front)
        hung = result.outcome == "timed_out"
        code: LeaveCode = "tests_timed_out" if hung else "tests_failed"
        self.add(e.EntryLeft(run_id=run_id, code=code, tests=tuple(sorted(result.failed - {UNNAMED}))))
        return True

    def _retest_front(self, front: Position) -> bool:
        """Test a red first position again. A single entry leaves instead if it took part in as many tests as permitted.

        Nothing ahead of it can be the cause, and a green entry always lands. So only an entry that is red itself leaves.
        """
        run_id = front.runs[0]
        if len(front.runs) > 1 or self.queue.entries[run_id].tests < self.policy.tests_of_entry:
            return self._request_test(front.tree)
        self._fail_front(front)
        self.add(e.EntryLeft(run_id=run_id, code="budget_exceeded"))
        return True

    def _may_retest(self, reds: int) -> bool:
        return reds < self.policy.red_reports

    def _fail_front(self, front: Position) -> bool:
        window = self.policy.window_after(self.queue.window, landed=False)
        self.add(e.PositionFailed(number=front.number, window=window))
        return True

    def _plan_position(self) -> bool:
        """Add a position if the window permits one more. Nothing is added behind a red position."""
        queue = self.queue
        red = any(each.tree in queue.results and not queue.results[each.tree].green for each in queue.line)
        if len(queue.line) >= queue.window or red:
            return False
        runs = next_group(queue, self.policy)
        if runs:
            number, ahead = queue.positions + 1, tuple(runs_in(queue.line))
            self.add(e.PositionPlanned(number=number, runs=runs, base=queue.base, ahead=ahead))
        return bool(runs)

    def _request_next_test(self) -> bool:
        """Test the first tree of the line without a result, unless a position ahead of it is red."""
        queue = self.queue
        for position in queue.line:
            result = queue.results.get(position.tree)
            if not position.tree or (result is not None and not result.green):
                return False
            if result is None and position.tree not in queue.tests:
                return self._request_test(position.tree)
        return False
