"""Rate limits and quotas: token buckets in this process, quotas from the ledger. Every refusal states when to retry.

Buckets are local: with several gatekeepers a publisher has one per gatekeeper. Quotas are global; acceptances of other
gatekeepers within the same few milliseconds may exceed them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from gatewright.clock import Clock
from gatewright.errors import LimitError, MalformedError
from gatewright.git.access.repository_patterns import covers_address
from gatewright.git.host.identity import repository_identity
from gatewright.services.gatekeeper.policies.publishers import Publisher, Rate, RepositoryQuota
from gatewright.services.gatekeeper.projections.publisher_runs import DAY, PublisherRuns

Act = Literal["submissions", "questions"]
#: Maximum number and bytes of stored messages of one publisher that wait in this process; further ones are dead-lettered.
MOST_HELD = 50
MOST_HELD_BYTES = 64 << 20
#: Maximum seconds that a stored message waits before it is checked again.
LONGEST_WAIT = 60.0
#: Seconds until a publisher with too many open runs may retry: the end of a run cannot be predicted.
OPEN_AGAIN = 5.0
#: Seconds until a publisher whose submissions are all in progress may retry.
BUSY_AGAIN = 1.0
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _Quota:
    """Limits on the runs of ``owner``, and the reason code of each limit."""

    owner: str
    words: str
    bounds: Publisher | RepositoryQuota

    @property
    def of_repository(self) -> bool:
        return isinstance(self.bounds, RepositoryQuota)


class Bucket:
    """A token bucket; full at the start."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token.

        Returns:
            0.0, or the seconds until a token is available.
        """
        per_second = self._rate.per_minute / 60
        self._tokens = min(float(self._rate.burst), self._tokens + max(0.0, now - self._at) * per_second)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / per_second
        self._tokens -= 1
        return 0.0


class PublisherLimits:
    """Limits of all publishers and of ``repositories``; the first repository rule that covers a URL applies."""

    def __init__(self, runs: PublisherRuns, clock: Clock, repositories: Sequence[RepositoryQuota] = ()) -> None:
        self.runs = runs
        self._repositories = repositories
        self._clock = clock
        self._buckets: dict[tuple[str, Act], Bucket] = {}
        self._in_hand: Counter[str] = Counter()
        self._coming: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._held: defaultdict[str, dict[int, tuple[float, int]]] = defaultdict(dict)

    def take(self, rule: Publisher, act: Act) -> None:
        """Take one token for an act.

        Raises:
            LimitError: ``rate_exceeded``; it carries the time to retry.
        """
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
    async def place(
        self, rule: Publisher, run_id: str, exists: Callable[[], Awaitable[bool]], repository: str = ""
    ) -> AsyncIterator[None]:
        """Reserve a place for one more run while it is being accepted.

        A run that exists already consumes no quota.

        Args:
            rule: the publisher's rule.
            run_id: the run.
            exists: returns whether the run exists already.
            repository: URL of its repository, or empty.

        Raises:
            LimitError: ``rate_exceeded``, ``too_many_open_runs``, ``daily_runs_exhausted``, ``quota_exceeded``.
            UnavailableError: the ledger is still being read.
        """
        with self._attending(rule):
            quotas = [_Quota(rule.name, rule.name, rule)] if rule.counted else []
            if self._repositories and repository:
                quotas += await asyncio.to_thread(self._of_repository, repository)
            if not quotas:
                yield
                return
            async with self._quota(quotas, run_id, exists):
                yield

    def _of_repository(self, url: str) -> list[_Quota]:
        """Return the quotas of a repository; none for a URL that the gates will refuse."""
        try:
            found = next((each for each in self._repositories if covers_address(url, each.repositories)), None)
            return [] if found is None else [_Quota(repository_identity(url), f"the repository {url[:200]}", found)]
        except MalformedError:
            return []

    @contextlib.contextmanager
    def _attending(self, rule: Publisher) -> Iterator[None]:
        """Limit concurrent submissions to the burst: a publisher of slow repositories must not block all others."""
        if rule.submissions is not None and self._in_hand[rule.name] >= rule.submissions.burst:
            words = f"{rule.submissions.burst} submissions of {rule.name} are in progress"
            raise LimitError(words, retry_after=BUSY_AGAIN, code="rate_exceeded")
        self._in_hand[rule.name] += 1
        try:
            yield
        finally:
            self._in_hand[rule.name] -= 1

    @contextlib.asynccontextmanager
    async def _quota(self, quotas: Sequence[_Quota], run_id: str, exists: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        await self.runs.complete()
        refusal = next((found for quota in quotas if (found := self._refusal(quota, run_id)) is not None), None)
        if refusal is not None and not await exists():
            raise refusal
        for quota in quotas:
            self._coming[quota.owner][run_id] += 1
        try:
            yield
        finally:
            for quota in quotas:
                coming = self._coming[quota.owner]
                coming[run_id] -= 1
                coming += Counter()
                if not coming:
                    del self._coming[quota.owner]

    def hold(self, rule: Publisher, sequence: int, size: int, error: LimitError) -> float | None:
        """Return after how many seconds a stored message of ``size`` bytes may be checked again.

        Returns:
            None when too many or too large messages of its publisher wait already.
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
        """Remove a stored message from those that wait."""
        self._held[rule.name].pop(sequence, None)

    def _refusal(self, quota: _Quota, run_id: str) -> LimitError | None:
        coming, begun = set(self._coming.get(quota.owner, ())), self.runs.begun(quota.owner)
        if run_id in begun:
            return None
        bounds, words = quota.bounds, quota.words
        if bounds.max_open_runs is not None and len(self.runs.open(quota.owner) | coming) >= bounds.max_open_runs:
            code = "quota_exceeded" if quota.of_repository else "too_many_open_runs"
            return LimitError(f"{words} has {bounds.max_open_runs} runs at once", retry_after=OPEN_AGAIN, code=code)
        for most, time, name in ((bounds.max_runs_per_hour, HOUR, "an hour"), (bounds.max_runs_per_day, DAY, "24 hours")):
            if most is not None and (wait := self._until_free(begun, coming, most, time)) is not None:
                code = "daily_runs_exhausted" if time == DAY and not quota.of_repository else "quota_exceeded"
                return LimitError(f"{words} has {most} runs in {name}", retry_after=wait, code=code)
        return None

    def _until_free(self, begun: dict[str, datetime], coming: set[str], most: int, time: timedelta) -> float | None:
        """Return the seconds until fewer than ``most`` runs began within ``time``; None when that holds now."""
        now = self._clock.now()
        within = sorted(when for when in begun.values() if when > now - time)
        beyond = len(within) + len(coming - begun.keys()) - most
        if beyond < 0:
            return None
        # Runs that are being accepted began now.
        free = (within[beyond] if beyond < len(within) else now) + time - now
        return round(max(timedelta(0), free).total_seconds(), 3)
