"""Open pages in a real browser, over a real NATS server, while what is between them and the ledger is killed, cut or asleep."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from playwright.sync_api import Browser, CDPSession, Page

from gatewright.app.console.serving import ConsoleAddress, ConsoleServer, make_app
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.client.client import Client
from gatewright.errors import GatewrightError
from gatewright.view.board import Board, SequencedTransition, advance_board
from gatewright.view.filters import BoardFilter, lists_of
from tests.client.conftest import write_run
from tests.console.conftest import free_port
from tests.tcp_proxy import Wire
from tests.unauthenticated_nats import OpenServer
from tests.view.ledgers import interleaved, make_run

T = TypeVar("T")
#: What is broken, one after another; each breaks every page.
KINDS = ("console", "network", "hidden", "server", "network", "console", "hidden")
PAGES = ("/", "/?stage=landed", "/?text=modernise", "/?stage=running")
#: Milliseconds until a page has to be as the ledger is, however busy the machine: patience, and no promise.
PATIENCE = 120_000
#: Notes when the page was connected last, before anything of its own runs.
NOTE = """
const Own = window.EventSource;
window.EventSource = class extends Own {
  constructor(...given) {
    super(...given);
    this.addEventListener("open", () => { window.openedAt = performance.timeOrigin + performance.now(); });
  }
};
"""
#: Milliseconds from when all was mended, and from when the page was connected again, until it was as it has to be; nothing as
#: long as it is not.
EQUAL = """
([wanted, mended]) => {
  const shown = {};
  for (const line of document.querySelectorAll(".runs > li")) {
    if (line.id in shown) return false;
    shown[line.id] = line.parentElement.id;
  }
  const same = ([id, list]) => shown[id] === list;
  if (Object.keys(shown).length !== Object.keys(wanted).length || !Object.entries(wanted).every(same)) return false;
  const now = performance.timeOrigin + performance.now();
  return [mended, Math.max(mended, window.openedAt || 0)].map((begun) => Math.max(0, now - begun));
}
"""
#: Has a page look by itself, and another look at what it found; a page that was loaded anew meanwhile looks only then.
LOOK = f"""
(given) => {{
  window.found = null;
  const look = () => {{ window.found = ({EQUAL})(given) || null; if (!window.found) setTimeout(look, 10); }};
  look();
}}
"""
FOUND = f"(given) => window.found || ({EQUAL})(given)"


@dataclass(frozen=True, slots=True)
class Convergence:
    """Milliseconds until one page equalled the ledger: from when all was mended, and from when it was connected again."""

    mended: float
    connected: float


class BrokenHouse:
    """A NATS server, a console over it and a wire between that and the browser, in a thread of their own."""

    def __init__(self, home: Path) -> None:
        self.home, self.port, self.written = home, free_port(), 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = contextlib.AsyncExitStack()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        self._thread.start()
        self.do(self._open())
        try:
            yield
        finally:
            self.do(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _open(self) -> None:
        self.server = await OpenServer.open(self.home / "nats")
        await ensure_topology(self.server.url)
        self.wire = await self._stack.enter_async_context(Wire(self.port))
        await self.start_console()

    async def _close(self) -> None:
        await self.kill_console()
        await self._stack.aclose()
        await self.server.stop()

    async def start_console(self) -> None:
        address = ConsoleAddress(port=self.port, names=(f"127.0.0.1:{self.wire.port}",))
        app = make_app(self._connect, self.home, self.home / "key.pem", address)
        config = uvicorn.Config(app.asgi, port=self.port, log_level="error", access_log=False, timeout_graceful_shutdown=1)
        self._console = ConsoleServer(config, app.link)
        self._serving = asyncio.create_task(self._console.serve())
        while not self._console.started:
            assert not self._serving.done()
            await asyncio.sleep(0.01)

    async def kill_console(self) -> None:
        self._console.should_exit = True
        await self._serving

    async def kill_server(self) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        with contextlib.suppress(GatewrightError):
            await self.server.ended()
        await self.server.stop()

    async def start_server(self) -> None:
        self.server = await OpenServer.open(self.home / "nats", port=self.server.port, password=self.server.password)

    async def write(self, entries: Sequence[SequencedTransition]) -> None:
        async with contextlib.AsyncExitStack() as stack:
            bus = await JetStreamBus.connect(self.server.url, name="writer", patience=PATIENCE / 1000)
            stack.push_async_callback(bus.close)
            await write_run(bus, [entry.transition for entry in entries])

    async def cut(self) -> None:
        self.wire.cut()

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Client]:
        async with contextlib.AsyncExitStack() as stack:
            bus = await JetStreamBus.connect(self.server.url, name="console")
            stack.push_async_callback(bus.close)
            yield Client(bus)


def interrupt(kind: str, house: BrokenHouse, sessions: Sequence[CDPSession], write: Callable[[], None]) -> None:
    """Break it, let the ledger go on meanwhile, and mend it."""
    match kind:
        case "console":
            house.do(house.kill_console())
            write()
            house.do(house.start_console())
        case "server":
            house.do(house.kill_server())
            house.do(house.start_server())
            write()
        case "network":
            house.do(house.cut())
            write()
            house.do(house.cut())
        case "hidden":
            for session in sessions:
                session.send("Page.setWebLifecycleState", {"state": "frozen"})
            write()
            house.do(house.cut())
            for session in sessions:
                session.send("Page.setWebLifecycleState", {"state": "active"})


def wanted(board: Board, path: str) -> dict[str, str]:
    """By run the list that its line has to stand in."""
    field, _, value = path.partition("?")[2].partition("=")
    chosen = BoardFilter(**{field: value}) if field else BoardFilter()
    return {row.run_id: f"list-{stage}" for stage, rows in lists_of(board, chosen).items() for row in rows}


def interrupted(browser: Browser, folder: Path, times: int) -> Mapping[str, Sequence[Convergence]]:
    """Break every page so often, one kind after another, and wait each time until all equal the ledger.

    By kind, how long each page took. What got lost or doubled ends it by an assertion, or by a timeout.
    """
    runs = [make_run(number, "success" if number % 4 else "aborted") for number in range(45)]
    entries = interleaved(runs)
    share = len(entries) // times
    taken: defaultdict[str, list[Convergence]] = defaultdict(list)
    house, board, written = BrokenHouse(folder), Board(), 0
    with house.open():
        pages: list[Page] = []
        for path in PAGES:
            page = browser.new_page()
            page.add_init_script(NOTE)
            page.goto(f"http://127.0.0.1:{house.wire.port}{path}")
            pages.append(page)
        sessions = [page.context.new_cdp_session(page) for page in pages]
        for number in range(times):
            kind = KINDS[number % len(KINDS)]
            portion = entries[written : written + share] if number < times - 1 else entries[written:]
            interrupt(kind, house, sessions, lambda part=portion: house.do(house.write(part)))  # type: ignore[misc]
            mended, written = time.time() * 1000, written + len(portion)
            board = advance_board(board, portion)
            for page, path in zip(pages, PAGES, strict=True):
                page.evaluate(LOOK, [wanted(board, path), mended])
            for page, path in zip(pages, PAGES, strict=True):
                equal = page.wait_for_function(FOUND, arg=[wanted(board, path), mended], timeout=PATIENCE)
                taken[kind].append(Convergence(*equal.json_value()))
        assert len(board.rows) == len(runs)
        for page, path in zip(pages, PAGES, strict=True):
            shown = page.locator('[data-count="landed"]').inner_text()
            page.reload()
            page.wait_for_function(EQUAL, arg=[wanted(board, path), 0], timeout=PATIENCE)
            assert page.locator('[data-count="landed"]').inner_text() == shown
            page.close()
    assert sum(map(len, taken.values())) == times * len(PAGES)
    return taken


def account(taken: Mapping[str, Sequence[Convergence]]) -> Iterator[str]:
    """How long it took, for people: the middle and the worst of each kind."""
    for kind, times in taken.items():
        connected, mended = [each.connected for each in times], [each.mended for each in times]
        yield (
            f"{kind}: {len(times)} interruptions, 0 lost, 0 doubled; equal {statistics.median(connected):.0f} ms after it was "
            f"connected again ({max(connected):.0f} at most), {statistics.median(mended):.0f} ms after all was mended "
            f"({max(mended):.0f} at most)"
        )
