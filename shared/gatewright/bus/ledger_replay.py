"""Reading of a partitioned ledger as one: each stream in order, and each run in one stream.

Without following, messages are merged in the order in which they were stored, as far as the server's clocks show; with
following, in order of arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Protocol

from gatewright.bus.ledger_layout import LedgerLayout, Seen, StoredRuns
from gatewright.bus.port import Message

#: Messages that were read and not yet taken, of all streams together.
_AHEAD = 64
#: Seconds between two cancellations of a task.
_AGAIN = 0.05

Source = AsyncGenerator[Message, None]


class ReadStream(Protocol):
    """Stored messages of one stream under one subject, beyond a sequence."""

    def __call__(self, stream: str, subject: str, *, follow: bool, after: int) -> Source: ...


async def ledger_replay(layout: LedgerLayout, subject: str, read: ReadStream, *, follow: bool, after: Seen) -> Source:
    """Messages of the ledger under ``gw.run.<run id>`` or ``gw.run.*``, by the names and places that all others know."""
    seen = layout.last_sequences(after)
    sources = [
        _with_public_subjects(layout, runs, read(runs.stream, runs.subject, follow=follow, after=seen[runs.partition]))
        for runs in layout.stored_runs(subject)
    ]
    whole = _as_they_come(sources) if follow else _as_they_were_stored(sources)
    async with contextlib.aclosing(sources[0] if len(sources) == 1 else whole) as messages:
        async for message in messages:
            yield message


async def _with_public_subjects(layout: LedgerLayout, runs: StoredRuns, source: Source) -> Source:
    async with contextlib.aclosing(source) as messages:
        async for message in messages:
            place = layout.place(runs.partition, message.sequence)
            yield replace(message, subject=layout.logical_subject(message.subject), sequence=place)


async def _as_they_were_stored(sources: Sequence[Source]) -> Source:
    async with contextlib.AsyncExitStack() as stack:
        for source in sources:
            await stack.enter_async_context(contextlib.aclosing(source))
        reading = [asyncio.create_task(_following(source)) for source in sources]
        try:
            firsts = await asyncio.gather(*reading)
        finally:  # when one fails, others are still reading: a source can be closed only when it is idle
            await cancel_until_done(reading)
        heads = [(first.stored_at, number, first) for number, first in enumerate(firsts) if first is not None]
        heapq.heapify(heads)
        while heads:
            _, number, message = heads[0]
            yield message
            following = await _following(sources[number])
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.stored_at, number, following))


async def _following(source: Source) -> Message | None:
    """The next message of ``source``; None at its end."""
    return await anext(source, None)


async def _as_they_come(sources: Sequence[Source]) -> Source:
    arrived: asyncio.Queue[Message] = asyncio.Queue(_AHEAD)

    async def read(source: Source) -> None:
        async with contextlib.aclosing(source) as messages:
            async for message in messages:
                await arrived.put(message)

    reading = [asyncio.create_task(read(source)) for source in sources]
    coming: asyncio.Task[Message] | None = None
    try:
        while True:
            coming = asyncio.create_task(arrived.get())
            await asyncio.wait({coming, *reading}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                yield coming.result()
                continue
            for each in reading:
                if each.done():
                    each.result()  # one that cannot go on ends all: none of its runs may be passed over
            return
    finally:
        if coming is not None:
            coming.cancel()
        await cancel_until_done(reading)


async def cancel_until_done(tasks: Sequence[asyncio.Task[object]], again: float = _AGAIN) -> None:
    """Cancel tasks that use the NATS client, every ``again`` seconds, until all have ended.

    Once is not enough: the client swallows a cancellation at times, for instance while it flushes. A caller whose tasks cancel
    other tasks in this way passes a longer ``again``: a second cancellation would interrupt them.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again)
    await asyncio.gather(*tasks, return_exceptions=True)
