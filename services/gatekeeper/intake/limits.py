"""How much and how often: token buckets in this process, quotas on what the ledger says. Every refusal says when to come again.

The buckets are this process's own: with several gatekeepers a publisher has that many of them. The quotas are one for all; what
other gatekeepers accept in the same few milliseconds may go beyond them.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Literal

from gatewright.clock import Clock
from gatewright.errors import LimitError
from gatewright.services.gatekeeper.policies.publishers import Publisher, Rate
from gatewright.services.gatekeeper.projections.publisher_runs import DAY, PublisherRuns

Act = Literal["submissions", "questions"]
#: Stored messages of one publisher that wait in this process for its limits, and their bytes; more are put aside.
MOST_HELD = 50
MOST_HELD_BYTES = 64 << 20
#: Seconds that a stored message waits at most before it is looked at again.
LONGEST_WAIT = 60.0
#: Seconds after which a publisher with too many open runs may ask again: when one ends cannot be known.
OPEN_AGAIN = 5.0
#: The same for one whose submissions are all in hand.
BUSY_AGAIN = 1.0


class Bucket:
    """A token bucket; full at the beginning."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token: 0.0, or the seconds until there is one."""
        per_second = self._rate.per_minute / 60
        self._tokens = min(float(self._rate.burst), self._tokens + max(0.0, now - self._at) * per_second)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / per_second
        self._tokens -= 1
        return 0.0


class PublisherLimits:
    """The limits of all publishers."""

    def __init__(self, runs: PublisherRuns, clock: Clock) -> None:
        self.runs = runs
        self._clock = clock
        self._buckets: dict[tuple[str, Act], Bucket] = {}
        self._in_hand: Counter[str] = Counter()
        self._coming: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._held: defaultdict[str, dict[int, tuple[float, int]]] = defaultdict(dict)

    def take(self, rule: Publisher, act: Act) -> None:
        """Count one act. Raises LimitError (``rate_exceeded``)."""
        rate = rule.submissions if act == "submissions" else rule.questions
        if rate is None:
            return
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault((rule.name, act), Bucket(rate, now))
        wait = bucket.take(now)
        if wait:
            words = f"{rule.name} has {rate.per_minute:g} {act} a minute, {rate.burst} at once"
            raise LimitError(words, retry_after=round(wait, 3), code="rate_exceeded")

    @contextlib.asynccontextmanager
    async def place(self, rule: Publisher, run_id: str, exists: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """Room for one more run while it is being accepted; a run that is there already takes none of a quota.

        Raises LimitError (``rate_exceeded``, ``too_many_open_runs``, ``daily_runs_exhausted``), UnavailableError before the
        count is made.
        """
        with self._attending(rule):
            if not rule.counted:
                yield
                return
            async with self._quota(rule, run_id, exists):
                yield

    @contextlib.contextmanager
    def _attending(self, rule: Publisher) -> Iterator[None]:
        """No more at a time than the burst: a publisher of slow repositories must not keep everybody else waiting."""
        if rule.submissions is not None and self._in_hand[rule.name] >= rule.submissions.burst:
            words = f"{rule.submissions.burst} submissions of {rule.name} are in hand"
            raise LimitError(words, retry_after=BUSY_AGAIN, code="rate_exceeded")
        self._in_hand[rule.name] += 1
        try:
            yield
        finally:
            self._in_hand[rule.name] -= 1

    @contextlib.asynccontextmanager
    async def _quota(self, rule: Publisher, run_id: str, exists: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        await self.runs.counted()
        refusal = self._refusal(rule, run_id)
        if refusal is not None and not await exists():
            raise refusal
        coming = self._coming[rule.name]
        coming[run_id] += 1
        try:
            yield
        finally:
            coming[run_id] -= 1
            coming += Counter()

    def hold(self, rule: Publisher, sequence: int, size: int, error: LimitError) -> float | None:
        """Seconds after which a stored message of ``size`` bytes may be looked at again.

        None when too many of its publisher wait already, or too large ones.
        """
        held, now = self._held[rule.name], self._clock.monotonic()
        for known in [known for known, (until, _) in held.items() if until + LONGEST_WAIT < now]:
            del held[known]
        waiting = sum(each for _, each in held.values())
        if sequence not in held and (len(held) >= MOST_HELD or waiting + size > MOST_HELD_BYTES):
            return None
        wait = min(LONGEST_WAIT, (error.retry_after or OPEN_AGAIN) * (1 + len(held)))
        held[sequence] = now + wait, size
        return wait

    def let_go(self, rule: Publisher, sequence: int) -> None:
        """A stored message waits no longer."""
        self._held[rule.name].pop(sequence, None)

    def _refusal(self, rule: Publisher, run_id: str) -> LimitError | None:
        coming, begun = set(self._coming[rule.name]), self.runs.begun(rule.name)
        if run_id in begun:
            return None
        if rule.max_open_runs is not None and len(self.runs.open(rule.name) | coming) >= rule.max_open_runs:
            words = f"{rule.name} has {rule.max_open_runs} runs at once"
            return LimitError(words, retry_after=OPEN_AGAIN, code="too_many_open_runs")
        if rule.max_runs_per_day is not None and len(set(begun) | coming) >= rule.max_runs_per_day:
            oldest = min(begun.values(), default=self._clock.now())
            wait = max(timedelta(0), oldest + DAY - self._clock.now())
            words = f"{rule.name} has {rule.max_runs_per_day} runs in 24 hours"
            return LimitError(words, retry_after=round(wait.total_seconds(), 3), code="daily_runs_exhausted")
        return None
