"""Counts what the calls of a task use, while they are answered, and ends them when that is more than there is.

What a provider will say is only known at the end of a reply. Until then four bytes of words are counted as a token. What was
counted too much is taken off what the next call uses. A provider's count is believed unless it is far below that estimate: then
the estimate counts, and the record says so.
"""

from __future__ import annotations

import asyncio
import contextlib

from gatewright.budgets import BILLION, Excess, Spend, overdrawn
from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.errors import BudgetError
from gatewright.models.prices import Price, TokenUsage

#: Bytes of words that are counted as one token.
BYTES_A_TOKEN = 4
#: A count of written tokens of this part of the estimate, or less, is not believed; and of tokens that were read, for which the
#: estimate is a coarse one.
WRITTEN_LIE = 4
READ_LIE = 16
#: Bytes of a reply, words or not, for which at least one token is counted.
NOISE = 512


class Spending:
    """All calls of one task. Holds to ``budget`` itself, and tells ``spend`` too, whose word counts as well."""

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
        """What was counted so far."""
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
        """So much more was used; below 0: so much was counted too much. ``unpriced``: its price is not known.

        Raises BudgetError.
        """
        self._unpriced = self._unpriced or unpriced
        tokens, self._credit_tokens = _after_credit(tokens, self._credit_tokens)
        nano_usd, self._credit_nano = _after_credit(nano_usd, self._credit_nano)
        self._count(tokens, nano_usd, 0)

    def lost(self) -> None:
        """A call was sent whose use is not fully known: its reply was cut off, or never came."""
        self._incomplete = True
        with contextlib.suppress(BudgetError):  # it is known already, or the next call is told
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
    """How many tokens a model makes of a request's words, learnt from what its provider said of the calls before."""

    def __init__(self) -> None:
        self._tokens_a_byte: dict[str, float] = {}
        self._cached_part: dict[str, float] = {}

    def of(self, model: str, words: int) -> TokenUsage:
        """``words``: bytes of the request's text."""
        tokens = int(words * self._tokens_a_byte.get(model, 1 / BYTES_A_TOKEN))
        return TokenUsage(input=tokens, cached=int(tokens * self._cached_part.get(model, 0.0)))

    def learn(self, model: str, words: int, usage: TokenUsage) -> None:
        """``usage`` is what a provider said, and was believed."""
        if words > 0 and usage.input > 0:
            self._tokens_a_byte[model] = usage.input / words
            self._cached_part[model] = usage.cached / usage.input


class CallMeter:
    """One reply of one model."""

    def __init__(self, spending: Spending, price: Price | None, estimate: TokenUsage) -> None:
        self.doubted = False
        #: Whether the reply came to its end; of any other the provider may count more than was seen here.
        self.complete = False
        #: What the provider said, if it was believed.
        self.believed: TokenUsage | None = None
        self._spending = spending
        self._price = price
        self._estimate = estimate
        self._told: TokenUsage | None = None
        self._final: TokenUsage | None = None
        self._words = self._bytes = 0
        self._counted_tokens = self._counted_nano = 0

    def begin(self) -> None:
        """The provider has taken the request: what it read counts. Raises BudgetError."""
        self._count(self.usage)

    def count_streamed(self, size: int, words: int, told: TokenUsage | None) -> None:
        """``size`` more bytes of the reply hold ``words`` bytes of text; ``told`` is what they say. Raises BudgetError."""
        self._bytes += size
        self._words += words
        self._told = told or self._told
        self._count(self.usage)

    def settle(self) -> TokenUsage:
        """The reply has ended: what was told counts, if it can be believed. Later calls say the same.

        Raises BudgetError.
        """
        if self._final is not None:
            return self._final
        told, written = self._told, self._written_tokens()
        if told is None:
            self._final = self.usage
        else:
            read_truly = told.input * READ_LIE > self._estimate.input or self._estimate.input == 0
            wrote_truly = told.output * WRITTEN_LIE > written or written == 0
            self.doubted = not (read_truly and wrote_truly)
            self.believed = None if self.doubted else told
            read = told if read_truly else self._estimate
            self._final = TokenUsage(read.input, read.cached, read.cache_written, told.output if wrote_truly else written)
        self._count(self._final)
        return self._final

    @property
    def usage(self) -> TokenUsage:
        """What counts now: the greater of what was told and what was seen, of each; at the end what was settled."""
        if self._final is not None:
            return self._final
        told = self._told
        read = told if told is not None and told.input > 0 else self._estimate
        written = max(self._written_tokens(), told.output if told is not None else 0)
        return TokenUsage(read.input, read.cached, read.cache_written, written)

    @property
    def cost_usd(self) -> float | None:
        """None when the price is not known."""
        return None if self._price is None else self._counted_nano / BILLION

    def _written_tokens(self) -> int:
        return max(-(-self._words // BYTES_A_TOKEN), self._bytes // NOISE)

    def _count(self, usage: TokenUsage) -> None:
        nano_usd = 0 if self._price is None else self._price.nano_usd(usage)
        tokens, more = usage.total - self._counted_tokens, nano_usd - self._counted_nano
        self._counted_tokens, self._counted_nano = usage.total, nano_usd
        self._spending.count(tokens, more, unpriced=self._price is None)


def nano_of(price: Price | None, usage: TokenUsage) -> int:
    """What ``usage`` costs in billionths of a dollar; 0 where the price is not known."""
    return 0 if price is None else price.nano_usd(usage)


def _after_credit(amount: int, credit: int) -> tuple[int, int]:
    """What is to be counted of ``amount``, and the credit that is left."""
    left = amount - credit
    return max(left, 0), max(-left, 0)
