"""A signing agent that really serves, on loopback, and what a person says to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from gatewright.app.cli.people.agent_server import AgentAccess, SigningAgent
from gatewright.clock import Clock, SystemClock
from tests.console.conftest import free_port

CODE = "fedcba9876543210" * 2


@dataclass
class ScriptedPerson:
    """Says ``word`` once ``free`` is set; ``shown`` is what was asked, ``taken_back`` what no page waited for any more."""

    word: str = "approve"
    free: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    shown: list[str] = field(default_factory=list)
    taken_back: threading.Event = field(default_factory=threading.Event)

    async def agrees(self, lines: Sequence[str], word: str) -> bool:
        self.shown.append("\n".join(lines))
        self.asked.set()
        try:
            await asyncio.to_thread(self.free.wait)
        except asyncio.CancelledError:
            self.taken_back.set()
            raise
        return self.word == word


class ServedAgent:
    """Of ``ana``, for pages of ``origin``."""

    def __init__(self, key: Path, origin: str, clock: Clock | None = None, *, port: int | None = None) -> None:
        self.port = port or free_port()
        self.person = ScriptedPerson()
        access = AgentAccess(frozenset({f"127.0.0.1:{self.port}"}), frozenset({origin}), CODE)
        agent = SigningAgent(access, "ana", key, clock or SystemClock(), self.person.agrees)
        config = uvicorn.Config(agent.app(), port=self.port, log_level="error", access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            self._thread.join(0.01)

    def close(self) -> None:
        self.person.free.set()
        self._server.should_exit = True
        self._thread.join()
