"""The program: the pages behind their doors, served until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from gatewright.app.console.bundles import BundleShelf
from gatewright.app.console.doors import Doors, SignedIn
from gatewright.app.console.drawing import make_templates
from gatewright.app.console.pages import ConsolePages
from gatewright.app.feed.link import LedgerLink
from gatewright.app.http_access import check_address, is_loopback
from gatewright.client.client import Client
from gatewright.clock import Clock, SystemClock
from gatewright.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Where the page is reached. ``names``: further values of ``Host``. ``token`` None: none is wanted, on loopback alone."""

    host: str = "127.0.0.1"
    port: int = 8790
    token: str | None = None
    names: tuple[str, ...] = ()
    behind_proxy: bool = False

    def check(self) -> None:
        """Raises ConfigurationError for an address that others reach without a token, or without TLS."""
        check_address(self.host, behind_proxy=self.behind_proxy)
        if self.token is None and (self.behind_proxy or not is_loopback(self.host)):
            words = "others could look at it: give it a token (--token-file FILE)"
            raise ConfigurationError(words, code="configuration_invalid")

    @property
    def hosts(self) -> frozenset[str]:
        """The values of ``Host`` that are answered."""
        return frozenset({*(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]", self.host)), *self.names})

    @property
    def origins(self) -> frozenset[str]:
        """The values of ``Origin`` that are answered."""
        return frozenset({*(f"http://{name}" for name in self.hosts), *(f"https://{name}" for name in self.names)})


@dataclass(frozen=True, slots=True)
class ConsoleApp:
    """``asgi`` is what is served, ``link`` what feeds it."""

    asgi: ASGIApp
    link: LedgerLink


def make_app(
    connect: Callable[[], AbstractAsyncContextManager[Client]],
    home: Path,
    key: Path,
    address: ConsoleAddress,
    *,
    clock: Clock | None = None,
    warn: Callable[[str], None] = lambda _words: None,
) -> ConsoleApp:
    """The whole program. Raises ConfigurationError as ``check`` does."""
    address.check()
    time = clock or SystemClock()
    link = LedgerLink(connect, warn)
    signed_in = SignedIn(address.token, time.monotonic)
    pages = ConsolePages(link, BundleShelf(link, home, key), make_templates(), signed_in, time, address.behind_proxy)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(link.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    doors = Doors(Starlette(routes=pages.routes(), lifespan=lifespan), address.hosts, address.origins, signed_in)
    return ConsoleApp(doors, link)


class ConsoleServer(uvicorn.Server):
    """Ends what is open for good before it waits for the rest."""

    def __init__(self, config: uvicorn.Config, link: LedgerLink) -> None:
        super().__init__(config)
        self._link = link

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As the library's own, once open pages have been told that nothing more comes."""
        if self._link.follower is not None:
            self._link.follower.end()
        await super().shutdown(sockets)


async def serve(app: ConsoleApp, address: ConsoleAddress) -> None:
    """Serve until the process is told to end; open pages do not hold it up."""
    config = uvicorn.Config(
        app.asgi,
        host=address.host,
        port=address.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=500,
    )
    await ConsoleServer(config, app.link).serve()
