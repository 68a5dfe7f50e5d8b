"""Reads messages beside other work: a large one may be made to take seconds, and nothing else may wait for it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gatewright.bus.port import Message

#: Bytes of a message that is read without letting anything else run meanwhile.
AT_ONCE = 32_768

R = TypeVar("R")


async def read(message: Message, reader: Callable[[], R]) -> R:
    """What ``reader`` makes of ``message``; of a large one in a thread of its own."""
    return reader() if len(message.data) <= AT_ONCE else await asyncio.to_thread(reader)
