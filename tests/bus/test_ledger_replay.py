"""How a replay of several streams ends when one of them cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.ledger_replay import ledger_replay
from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.errors import BusError
from tests.waiting import PATIENCE


@pytest.mark.parametrize("follow", [False, True])
async def test_an_unreadable_stream_ends_the_replay_of_all_streams(*, follow: bool) -> None:
    begun: list[str] = []
    closed: list[str] = []
    all_begun = asyncio.Event()

    async def read(stream: str, subject: str, *, follow: bool, after: int) -> AsyncGenerator[Message, None]:
        begun.append(stream)
        if len(begun) == 3:
            all_begun.set()
        try:
            await all_begun.wait()
            if stream == begun[1]:
                raise BusError(f"{stream} cannot be read")
            await asyncio.Event().wait()
            yield Message("", b"", {}, 0)
        finally:
            closed.append(stream)

    with pytest.raises(BusError, match="cannot be read"):
        async with asyncio.timeout(PATIENCE):
            [each async for each in ledger_replay(LedgerLayout(3), run_subject("*"), read, follow=follow, after=0)]
    assert len(begun) == 3
    assert sorted(closed) == sorted(begun)
