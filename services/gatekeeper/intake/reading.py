"""Parses messages off the event loop: a large message may take seconds, and must not block other work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gatewright.bus.port import Message

#: Maximum bytes of a message that is parsed on the event loop.
AT_ONCE = 32_768

R = TypeVar("R")


async def read(message: Message, reader: Callable[[], R]) -> R:
    """Return the result of ``reader`` on ``message``; a large message is parsed in a thread."""
    return reader() if len(message.data) <= AT_ONCE else await asyncio.to_thread(reader)
