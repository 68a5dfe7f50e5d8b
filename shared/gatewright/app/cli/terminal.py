"""Input that a person types at a terminal, line by line, after a question was printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from typing import Final

_MOST_TYPED: Final = 4096


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def forget_typed(terminal: int) -> None:
    """Discard input from before a question was printed, since it is no answer. Only a terminal is affected."""
    with contextlib.suppress(termios.error):
        termios.tcflush(terminal, termios.TCIFLUSH)


async def typed_line(terminal: int) -> str:
    """Return the next typed line with its line end; empty at the end of the input."""
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
