"""A console that really serves, on loopback, over a bus in memory that tests write a ledger to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvicorn

from gatewright.app.console.access_record import AccessFile
from gatewright.app.console.provider.settings import ProviderSettings
from gatewright.app.console.roles import ConsoleRole
from gatewright.app.console.serving import ConsoleAddress, ConsoleServer, make_app
from gatewright.app.console.submitting import SubmitAccess
from gatewright.app.console.surroundings import LookAtSystem
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.client.approvals import ApprovalInbox
from gatewright.client.client import Client
from gatewright.clock import Clock
from gatewright.contracts import Transition
from tests.client.conftest import write_run

T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class ServedConsole:
    """``system`` is the bus; ``kill`` and ``start`` end and begin the program, with the same address, as often as wanted."""

    home: Path
    port: int = field(default_factory=free_port)
    token: str | None = None
    decides: bool = False
    submit: SubmitAccess | None = None
    look: LookAtSystem | None = None
    record: AccessFile | None = None
    tokens: dict[str, ConsoleRole] = field(default_factory=dict)
    agent_port: int = 8791
    provider: ProviderSettings | None = None
    clock: Clock | None = None
    system: MemoryServer = field(default_factory=MemoryServer)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: uvicorn.Server | None = None
    _serving: Future[None] | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        self.begin()
        self.do(self._ensure())
        self.start()

    def begin(self) -> None:
        """The loop alone: what has to be there before the console is."""
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self) -> None:
        tokens: dict[str, ConsoleRole] = {self.token: "approver"} if self.token is not None else self.tokens
        agent = f"http://127.0.0.1:{self.agent_port}"
        address = ConsoleAddress(port=self.port, tokens=tokens, agent=agent, provider=self.provider)
        decide = self._open_inbox if self.decides else None
        app = make_app(
            self._connect,
            self.home,
            self.home / "key.pem",
            address,
            decide=decide,
            submit=self.submit,
            look=self.look,
            record=self.record,
            clock=self.clock,
        )
        config = uvicorn.Config(app.asgi, port=self.port, log_level="error", access_log=False, timeout_graceful_shutdown=5)
        self._server = ConsoleServer(config, app.link)
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(), self._loop)
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
            self.do(asyncio.sleep(0.01))

    def kill(self) -> None:
        assert self._server is not None
        assert self._serving is not None
        self._server.should_exit = True
        self._serving.result()

    def write(self, transitions: Sequence[Transition]) -> None:
        self.do(self._write(transitions))

    def close(self) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done where the console runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _ensure(self) -> None:
        await ensure_topology(MemoryBus(self.system))

    async def _write(self, transitions: Sequence[Transition]) -> None:
        await write_run(MemoryBus(self.system), transitions)

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Client]:
        async with contextlib.AsyncExitStack() as stack:
            bus = MemoryBus(self.system)
            stack.push_async_callback(bus.close)
            yield Client(bus)

    @contextlib.asynccontextmanager
    async def _open_inbox(self) -> AsyncIterator[ApprovalInbox]:
        async with contextlib.AsyncExitStack() as stack:
            bus = MemoryBus(self.system)
            stack.push_async_callback(bus.close)
            yield ApprovalInbox(bus)


MakeConsole = Callable[..., ServedConsole]


@pytest.fixture
def make_console(tmp_path: Path) -> Iterator[MakeConsole]:
    opened: list[ServedConsole] = []

    def make(token: str | None = None, **fields: Any) -> ServedConsole:
        console = ServedConsole(tmp_path, token=token, **fields)
        console.open()
        opened.append(console)
        return console

    yield make
    for console in opened:
        console.close()


@pytest.fixture
def console(make_console: MakeConsole) -> ServedConsole:
    return make_console()
