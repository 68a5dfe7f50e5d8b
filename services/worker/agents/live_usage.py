"""Reports to observers, while an agent works, its task's usage of models and time, as counted by the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from gatewright.budgets import amount_words
from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.tasks.activity import ReportActivity

_SECONDS: Final = 2.0


@contextlib.asynccontextmanager
async def emit_usage(
    usage: Callable[[], Usage], budget: Budget | None, limit: float, live: ReportActivity, *, every: float = _SECONDS
) -> AsyncIterator[None]:
    """Report ``usage`` every ``every`` seconds while the body runs. ``limit``: the seconds that the body may take."""
    reporting = asyncio.create_task(_keep_reporting(usage, budget or Budget(), limit, live, every))
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def _keep_reporting(usage: Callable[[], Usage], budget: Budget, limit: float, live: ReportActivity, every: float) -> None:
    begun = time.monotonic()
    while True:
        await asyncio.sleep(every)
        live("usage", usage_line(usage(), budget, time.monotonic() - begun, limit))


def usage_line(usage: Usage, budget: Budget, elapsed: float, limit: float) -> str:
    """``12,345 of 50,000 tokens, 0.12 USD, 7 turns, 41 of 300 s``; what has no known price is no amount of money."""
    parts = [amount_words(usage.tokens, "tokens", budget.tokens)]
    if usage.cost_usd or budget.cost_usd is not None:
        parts.append(amount_words(round(usage.cost_usd, 4), "USD", budget.cost_usd, least=usage.unpriced))
    parts.append(amount_words(usage.iterations, "turns", budget.iterations))
    parts.append(amount_words(round(elapsed), "s", round(limit)))
    return ", ".join(parts)
