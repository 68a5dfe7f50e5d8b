"""The program: the pages behind the access check, served until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.app.console.access_check import SESSION_COOKIE, AccessCheck, SignedIn
from gatewright.app.console.access_record import AccessFile, AccessRecord
from gatewright.app.console.bundles import BundleShelf, ChangeShelf
from gatewright.app.console.change_pages import ChangePages
from gatewright.app.console.decisions import DecisionPaths, OpenInbox
from gatewright.app.console.drawing import make_templates
from gatewright.app.console.pages import ConsolePages
from gatewright.app.console.passkeys import PasskeyPaths
from gatewright.app.console.provider.attempts import SignInAttempts
from gatewright.app.console.provider.exchange import ProviderExchange
from gatewright.app.console.provider.paths import ProviderPaths
from gatewright.app.console.provider.settings import ProviderSettings
from gatewright.app.console.roles import ConsoleRole
from gatewright.app.console.submitting import SubmitAccess, SubmitPaths
from gatewright.app.console.surroundings import LookAtSystem, SurroundingPages
from gatewright.app.feed.agent_words import AgentWords
from gatewright.app.feed.link import LedgerLink
from gatewright.app.http_access import AskingRate, check_address, is_loopback
from gatewright.bus.ledger_replay import cancel_until_done
from gatewright.client.client import Client
from gatewright.clock import Clock, SystemClock
from gatewright.errors import ConfigurationError

# A rate limit per browser: one token bucket per session, so that a faulty one does not affect others.

#: Burst of requests, and sustained requests per second.
BURST: Final = 300.0
EACH_SECOND: Final = 20.0


class RateLimit:
    """Runs after the access check, for signed-in people: others only see the sign-in, which has limits of its own."""

    def __init__(self, app: ASGIApp, signed_in: SignedIn, rate: AskingRate) -> None:
        self._app, self._signed_in, self._rate = app, signed_in, rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._signed_in.wanted and not scope["path"].startswith("/static/"):
            session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
            # A session that was made up has no bucket.
            if self._signed_in.role_of(session) is not None and (wait := self._rate.wait_of(session)):
                words = "too many questions at once: wait a moment\n"
                await PlainTextResponse(words, 429, {"Retry-After": str(int(wait) + 1)})(scope, receive, send)
                return
        await self._app(scope, receive, send)


#: Seconds after which background tasks are cancelled again.
_ENDING = 5.0


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """The addresses of the page. ``names``: further values of ``Host``.

    ``tokens``: by token its role. ``provider``: the sign-in provider. Without both, no sign-in is required, on loopback
    only. ``agent``: the origin of signing agents.
    """

    host: str = "127.0.0.1"
    port: int = 8790
    tokens: Mapping[str, ConsoleRole] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    behind_proxy: bool = False
    agent: str = "http://127.0.0.1:8791"
    provider: ProviderSettings | None = None

    def check(self) -> None:
        """Raises ConfigurationError for an address that others reach without a sign-in, or without TLS.

        And for a provider that would send people back to a name that is not answered, or over a way that others read along on.
        """
        check_address(self.host, behind_proxy=self.behind_proxy)
        if not self.tokens and self.provider is None and (self.behind_proxy or not is_loopback(self.host)):
            words = "others could look at it: have people sign in (--oidc FILE, or --token-file FILE)"
            raise ConfigurationError(words, code="configuration_invalid")
        if self.provider is None:
            return
        if self.provider.console_host not in self.hosts:
            words = f"people would come back to {self.provider.console_host}, which is not answered: name it (--host-name NAME)"
            raise ConfigurationError(words, code="configuration_invalid")
        if self.behind_proxy and not self.provider.file.console.startswith("https:"):
            words = "the proxy speaks TLS: the address `console` has to begin with https://"
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
    decide: OpenInbox | None = None,
    submit: SubmitAccess | None = None,
    look: LookAtSystem | None = None,
    record: AccessFile | None = None,
    clock: Clock | None = None,
    warn: Callable[[str], None] = lambda _words: None,
) -> ConsoleApp:
    """The whole program. ``decide`` opens a connection as an approver, ``submit`` one as a publisher; ``look`` sees the system.
    ``record``: where it is written down who looked at what.

    Raises ConfigurationError as ``check`` does.
    """
    address.check()
    time = clock or SystemClock()
    link = LedgerLink(connect, warn, submit.connect if submit is not None else None)
    # From the clock, so that a page from before a restart receives everything after it.
    first = int(time.now().timestamp() * 1000)
    words = AgentWords(link, lambda: link.follower.nudge() if link.follower is not None else None, first)
    provider = address.provider
    most: ConsoleRole = "operator" if decide or submit else "viewer"
    signed_in = SignedIn(address.tokens, time.monotonic, most, provider is not None)
    agent = address.agent if decide is not None else ""
    changes = ChangeShelf(link)
    pages = ConsolePages(
        link,
        BundleShelf(link, home, key),
        changes,
        make_templates(),
        signed_in,
        time,
        address.behind_proxy,
        agent=agent,
        submits=submit is not None,
        provider=provider.host if provider is not None else "",
        words=words,
    )
    deciding = DecisionPaths(link, signed_in, decide)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        running = (asyncio.create_task(link.run()), asyncio.create_task(words.listen()))
        try:
            yield
        finally:
            await cancel_until_done(running, _ENDING)

    surroundings = SurroundingPages(pages, home, look)
    deciding_routes = [*deciding.routes(), *PasskeyPaths(pages, deciding).routes()]
    routes = [*pages.routes(), *ChangePages(pages, changes).routes(), *deciding_routes]
    routes += [*SubmitPaths(pages, submit).routes(), *surroundings.routes()]
    if provider is not None:
        exchange = ProviderExchange(provider, time.monotonic, lambda: time.now().timestamp())
        attempts = SignInAttempts(time.monotonic)
        routes += ProviderPaths(exchange, attempts, signed_in, pages.templates, address.behind_proxy).routes()
    app = Starlette(routes=routes, lifespan=lifespan)
    limited = RateLimit(app, signed_in, AskingRate(time.monotonic, BURST, EACH_SECOND))
    checked: ASGIApp = AccessCheck(limited, address.hosts, address.origins, signed_in, agent)
    if record is not None:
        checked = AccessRecord(checked, signed_in, record, time)
    ready = HealthPaths(checked, lambda: link.follower is not None and link.follower.current)
    return ConsoleApp(ready, link)


class ConsoleServer(uvicorn.Server):
    """Ends what is open for good before it waits for the rest."""

    def __init__(self, config: uvicorn.Config, link: LedgerLink) -> None:
        super().__init__(config)
        self._link = link

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Notify open pages of the end, then shut down as the library does."""
        if self._link.follower is not None:
            self._link.follower.end()
        await super().shutdown(sockets)


async def serve(app: ConsoleApp, listening: socket.socket) -> None:
    """Serve at ``listening`` until the process receives a signal to stop; open pages do not delay the end."""
    config = uvicorn.Config(
        app.asgi, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1, limit_concurrency=500
    )
    await ConsoleServer(config, app.link).serve(sockets=[listening])


# Health checks for an engine or a cluster: whether the console works and has read the ledger. They reveal nothing else. A
# probe uses an address that is no name of the page, and has no sign-in, so these two paths precede the access check.
#: The process answers; the board has been read.
ALIVE, READY = "/healthz", "/readyz"


class HealthPaths:
    """Health checks in front of everything. ``ready``: whether the board has been read.

    It stays ready while the bus is away: pages show that they are not live, and would be unreachable otherwise.
    """

    def __init__(self, app: ASGIApp, ready: Callable[[], bool]) -> None:
        self._app, self._ready = app, ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in {ALIVE, READY} or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        good = scope["path"] == ALIVE or self._ready()
        answer = PlainTextResponse("ok\n" if good else "not ready\n", 200 if good else 503, {"Cache-Control": "no-store"})
        await answer(scope, receive, send)
