"""The usage of a task's calls, counted while they are answered; beyond the budget, calls are ended.

A provider reports usage only at the end of a reply. Until then four bytes of text are estimated as a token. An excess of
the estimate is deducted from the next call. A provider's count is accepted unless it is far below the estimate: then the
estimate applies, and the record notes it.
"""

from __future__ import annotations

import asyncio
import contextlib

from gatewright.budgets import BILLION, Excess, Spend, overdrawn
from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.errors import BudgetError
from gatewright.models.prices import Price, TokenUsage

#: Bytes of text estimated as one token.
BYTES_A_TOKEN = 4
#: A count of written tokens of this part of the estimate, or less, is not believed; and of tokens that were read, for which the
#: estimate is a coarse one.
WRITTEN_LIE = 4
READ_LIE = 16
#: Bytes of a reply, text or not, for which at least one token is counted.
NOISE = 512


class Spending:
    """All calls of one task. Enforces ``budget`` itself, and reports to ``spend``, which may also end the task."""

    def __init__(self, budget: Budget, spend: Spend) -> None:
        self.exceeded = asyncio.Event()
        self.excess = ""
        self._budget = budget
        self._spend = spend
        self._tokens = self._nano = self._iterations = 0
        self._credit_tokens = self._credit_nano = 0
        self._unpriced = self._incomplete = False

    @property
    def usage(self) -> Usage:
        """Return the usage counted so far."""
        return Usage(
            tokens=self._tokens,
            cost_usd=self._nano / BILLION,
            iterations=self._iterations,
            unpriced=self._unpriced,
            incomplete=self._incomplete,
            delivery="1",
        )

    def check(self) -> None:
        """Raises BudgetError once the budget is exceeded."""
        if self.exceeded.is_set():
            raise BudgetError(self.excess)

    def turn(self) -> None:
        """A call begins. Raises BudgetError."""
        self._count(0, 0, 1)

    def count(self, tokens: int, nano_usd: int, *, unpriced: bool = False) -> None:
        """Add usage; a negative amount corrects an overestimate. ``unpriced``: its price is unknown.

        Raises BudgetError.
        """
        self._unpriced = self._unpriced or unpriced
        tokens, self._credit_tokens = _after_credit(tokens, self._credit_tokens)
        nano_usd, self._credit_nano = _after_credit(nano_usd, self._credit_nano)
        self._count(tokens, nano_usd, 0)

    def lost(self) -> None:
        """Record a sent call of unknown usage: its reply was cut off, or never arrived."""
        self._incomplete = True
        with contextlib.suppress(BudgetError):  # already recorded, or reported to the next call
            self._spend(incomplete=True)

    def foresee(self, tokens: int, nano_usd: int) -> None:
        """A call would use at least so much. Raises BudgetError, before it is sent, when that is more than there is left."""
        self.check()
        tokens = self._tokens + max(tokens - self._credit_tokens, 0)
        cost = self._nano + max(nano_usd - self._credit_nano, 0)
        would = Usage(tokens=tokens, cost_usd=cost / BILLION, iterations=self._iterations, delivery="1")
        if (gone := overdrawn(self._budget, would)) is not None:
            self._exceed(f"{gone.words}, with the call that was not sent")

    def _count(self, tokens: int, nano_usd: int, iterations: int) -> None:
        self.check()
        self._tokens += tokens
        self._nano += nano_usd
        self._iterations += iterations
        try:
            self._spend(tokens=tokens, cost_usd=nano_usd / BILLION, iterations=iterations, unpriced=self._unpriced)
        except BudgetError as error:
            self._exceed(error.message)
        gone: Excess | None = overdrawn(self._budget, self.usage)
        if gone is not None:
            self._exceed(gone.words)

    def _exceed(self, words: str) -> None:
        if not self.exceeded.is_set():
            self.excess = words
            self.exceeded.set()
        raise BudgetError(self.excess)


class InputEstimate:
    """An estimate of a request's tokens per model, learnt from the reported usage of earlier calls."""

    def __init__(self) -> None:
        self._tokens_a_byte: dict[str, float] = {}
        self._cached_part: dict[str, float] = {}

    def of(self, model: str, words: int) -> TokenUsage:
        """Return the estimate for ``words`` bytes of text."""
        tokens = int(words * self._tokens_a_byte.get(model, 1 / BYTES_A_TOKEN))
        return TokenUsage(input=tokens, cached=int(tokens * self._cached_part.get(model, 0.0)))

    def learn(self, model: str, words: int, usage: TokenUsage) -> None:
        """Learn from a provider's accepted ``usage``."""
        if words > 0 and usage.input > 0:
            self._tokens_a_byte[model] = usage.input / words
            self._cached_part[model] = usage.cached / usage.input


class CallMeter:
    """The usage of one reply of one model."""

    def __init__(self, spending: Spending, price: Price | None, estimate: TokenUsage) -> None:
        self.doubted = False
        #: Whether the reply is complete; otherwise the provider may charge more than was seen here.
        self.complete = False
        #: The provider's count, if accepted.
        self.believed: TokenUsage | None = None
        self._spending = spending
        self._price = price
        self._estimate = estimate
        self._reported: TokenUsage | None = None
        self._final: TokenUsage | None = None
        self._words = self._bytes = 0
        self._counted_tokens = self._counted_nano = 0

    def begin(self) -> None:
        """The provider has taken the request: what it read counts. Raises BudgetError."""
        self._count(self.usage)

    def count_streamed(self, size: int, words: int, reported: TokenUsage | None) -> None:
        """Count ``size`` more bytes of the reply with ``words`` bytes of text; ``reported`` is its reported usage. Raises
        BudgetError."""
        self._bytes += size
        self._words += words
        self._reported = reported or self._reported
        self._count(self.usage)

    def settle(self) -> TokenUsage:
        """Settle an ended reply: the reported usage applies if credible. Later calls return the same.

        Raises BudgetError.
        """
        if self._final is not None:
            return self._final
        reported, written = self._reported, self._written_tokens()
        if reported is None:
            self._final = self.usage
        else:
            read_truly = reported.input * READ_LIE > self._estimate.input or self._estimate.input == 0
            wrote_truly = reported.output * WRITTEN_LIE > written or written == 0
            self.doubted = not (read_truly and wrote_truly)
            self.believed = None if self.doubted else reported
            read = reported if read_truly else self._estimate
            self._final = TokenUsage(read.input, read.cached, read.cache_written, reported.output if wrote_truly else written)
        self._count(self._final)
        return self._final

    @property
    def usage(self) -> TokenUsage:
        """Return the current usage: the greater of reported and observed values; at the end the settled usage."""
        if self._final is not None:
            return self._final
        reported = self._reported
        read = reported if reported is not None and reported.input > 0 else self._estimate
        written = max(self._written_tokens(), reported.output if reported is not None else 0)
        return TokenUsage(read.input, read.cached, read.cache_written, written)

    @property
    def cost_usd(self) -> float | None:
        """Return the cost; None if the price is unknown."""
        return None if self._price is None else self._counted_nano / BILLION

    def _written_tokens(self) -> int:
        return max(-(-self._words // BYTES_A_TOKEN), self._bytes // NOISE)

    def _count(self, usage: TokenUsage) -> None:
        nano_usd = 0 if self._price is None else self._price.nano_usd(usage)
        tokens, more = usage.total - self._counted_tokens, nano_usd - self._counted_nano
        self._counted_tokens, self._counted_nano = usage.total, nano_usd
        self._spending.count(tokens, more, unpriced=self._price is None)


def nano_of(price: Price | None, usage: TokenUsage) -> int:
    """Return the cost of ``usage`` in billionths of a dollar; 0 if the price is unknown."""
    return 0 if price is None else price.nano_usd(usage)


def _after_credit(amount: int, credit: int) -> tuple[int, int]:
    """Return the part of ``amount`` to count, and the remaining credit."""
    left = amount - credit
    return max(left, 0), max(-left, 0)
