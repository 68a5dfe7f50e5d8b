"""The question in the terminal: nothing that was typed before it counts, and it ends when the page has gone."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Sequence

from gatewright.app.cli.output import say
from gatewright.errors import ConfigurationError

_LONGEST_LINE = 4096


class SigningTerminal:
    """``descriptor``: the terminal that is read; questions are written to standard output."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def own(cls) -> SigningTerminal:
        """That of this process. Raises ConfigurationError where there is none: it never signs unasked."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigurationError("it asks before it signs: start it in a terminal", code="configuration_invalid")
        return cls(sys.stdin.fileno())

    async def agrees(self, lines: Sequence[str], word: str) -> bool:
        """Show ``lines``, which are all printable, and say whether ``word`` was typed then; cancelled, it asks no more."""
        for line in lines:
            say(line)
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        say(f"type {word} to sign, anything else to refuse: ")
        return await self._line() == word

    async def _line(self) -> str:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bytes] = loop.create_future()

        def typed() -> None:
            if not found.done():
                found.set_result(os.read(self._descriptor, _LONGEST_LINE))

        loop.add_reader(self._descriptor, typed)
        try:
            return (await found).decode("utf-8", "replace").strip()
        finally:
            loop.remove_reader(self._descriptor)
