"""Awaits what must not be left half done, although its caller may be cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finish_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end, however often the caller is cancelled; then pass the cancellation on."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and not task.cancelled():
        task.exception()  # looked at: the cancellation is what the caller gets
        raise asyncio.CancelledError
    return task.result()
