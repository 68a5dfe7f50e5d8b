"""The process ``gatewright forge``: follows the ledger, and keeps each entry of ``forges.json`` until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus

from gatewright.app.feed.link import LedgerLink
from gatewright.app.forge.keeper import ForgeKeeper
from gatewright.app.forge.metrics import ForgeMetrics
from gatewright.bus.ledger_replay import cancel_until_done
from gatewright.telemetry.health import METRICS_TEXT, OFF, HealthServer, Page, verdict_page
from gatewright.telemetry.logs import Logger

#: Seconds after which tasks are cancelled again.
_ENDING = 5.0


class ForgeProcess:
    """``receive``: serves webhooks until cancelled, if there are any."""

    def __init__(
        self,
        keepers: Sequence[ForgeKeeper],
        link: LedgerLink,
        metrics: ForgeMetrics,
        log: Logger,
        receive: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> None:
        self._keepers = keepers
        self._link = link
        self._metrics = metrics
        self._log = log
        self._receive = receive
        self.stop = asyncio.Event()
        #: Port of its health and metrics, once it serves.
        self.port = OFF

    async def run(self, host: str, port: int) -> None:
        """Run until SIGTERM or SIGINT. What is under way then is found and continued by the next start.

        Raises:
            ConfigurationError: the address of health and metrics cannot be served.
            GatewrightError: the ledger may not be read.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        async with contextlib.AsyncExitStack() as stack:
            if port != OFF:
                server = HealthServer(self._pages(), host=host, port=port)
                await server.start()
                stack.push_async_callback(server.close)
                self.port = server.port
            self._log.info("forge_started", metrics_port=self.port, entries=[each.entry.name for each in self._keepers])
            work = [self._link.run(), self._await_stop(), *(self._keep_entry(each) for each in self._keepers)]
            if self._receive is not None:
                work.append(self._receive())
            tasks = [asyncio.create_task(each) for each in work]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in ended:
                    each.result()
            finally:
                await cancel_until_done(tasks, _ENDING)
        self._log.info("forge_stopped")

    async def _await_stop(self) -> None:
        await self.stop.wait()

    async def _keep_entry(self, keeper: ForgeKeeper) -> None:
        await keeper.keep(await self._link.board_follower())

    def _lacking(self) -> Mapping[str, str]:
        follower = self._link.follower
        if follower is None or not follower.current:
            return {"ledger": "it has not been read to its end yet"}
        return {} if follower.connected else {"bus": "not connected"}

    def _pages(self) -> Mapping[str, Callable[[str], Page]]:
        """Return the pages by path. A forge that is away makes no page unhealthy: the metrics show it."""
        return {
            "/healthz": lambda _accept: verdict_page({}),
            "/readyz": lambda _accept: verdict_page(self._lacking()),
            "/metrics": lambda _accept: Page(HTTPStatus.OK, self._metrics.exposition(), METRICS_TEXT),
        }
