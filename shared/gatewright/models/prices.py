"""The cost of tokens. Money is counted in billionths of a dollar, so that sums are exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import Field

from gatewright.policy_files import PolicyModel

_MILLION = 10**6
#: More is no price; it keeps sums finite.
_MOST = 1e6


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of a call. ``input`` counts all that the model read; ``cached`` and ``cache_written`` are parts of it."""

    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def plus(self, other: TokenUsage) -> TokenUsage:
        """Return the sum."""
        return TokenUsage(
            self.input + other.input,
            self.cached + other.cached,
            self.cache_written + other.cache_written,
            self.output + other.output,
        )


class Price(PolicyModel):
    """US dollars per million tokens. Input read from, or written to, a provider's cache costs the same by default."""

    input: float = Field(ge=0, le=_MOST)
    output: float = Field(ge=0, le=_MOST)
    cached_input: float | None = Field(default=None, ge=0, le=_MOST)
    cache_write: float | None = Field(default=None, ge=0, le=_MOST)

    def nano_usd(self, usage: TokenUsage) -> int:
        """Return the cost of ``usage`` in billionths of a dollar, rounded up."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        plain = max(usage.input - usage.cached - usage.cache_written, 0)
        parts = plain * self.input + usage.cached * cached + usage.cache_written * written + usage.output * self.output
        return -int(-parts * 1000 // 1)


@cache
def free() -> Price:
    """Return the price of replayed calls: none."""
    return Price(input=0, output=0)
