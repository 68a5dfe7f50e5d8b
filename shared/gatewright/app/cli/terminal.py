"""What a person types at a terminal, one line after a question was printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
from typing import Final

_MOST_TYPED: Final = 4096


def forget_typed(terminal: int) -> None:
    """Forget what was typed before a question was printed: it is no answer to it. A descriptor that is no terminal stays."""
    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


async def typed_line(terminal: int) -> str:
    """The next line that is typed, with its end; empty at the end of the input."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(terminal)
    try:
        return os.read(terminal, _MOST_TYPED).decode("utf-8", "replace")
    except OSError:
        return ""
