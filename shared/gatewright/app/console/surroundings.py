"""Pages about what runs work in: repositories, merge queues, agents of this host, and the system with its roles and queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gatewright.agents.probed import probed_agents
from gatewright.app.cluster.asking import ClusterLook
from gatewright.app.cluster.judging import judge
from gatewright.app.console.pages import MOST_ENDED_SHOWN, ConsolePages
from gatewright.errors import GatewrightError, MalformedError
from gatewright.view.budgets import organisation_bars
from gatewright.view.repositories import repository_account, repository_accounts

#: Looks at the whole system, as an operator or an observer. Raises GatewrightError.
LookAtSystem = Callable[[], Awaitable[ClusterLook]]
#: Seconds for which a look counts, however many pages ask.
_FRESH = 10.0
_Answer = TypeVar("_Answer")


async def answer_or_refusal(answer: Awaitable[_Answer]) -> tuple[_Answer | None, str]:
    """Return an answer, or why there is none."""
    try:
        return await answer, ""
    except GatewrightError as error:
        return None, f"{error.message} [{error.reason}]"


@dataclass(slots=True)
class SurroundingPages:
    """``look`` None: this identity may not look at the system. ``home``: where probes of agents are kept."""

    pages: ConsolePages
    home: Path
    look: LookAtSystem | None
    _seen: tuple[float, str] | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[Route]:
        return [
            Route("/repositories", self.repositories),
            Route("/repository", self.repository),
            Route("/merge", self.merge_queues),
            Route("/agents", self.agents),
            Route("/system", self.system),
        ]

    async def repositories(self, request: Request) -> Response:
        """Show every repository with a run, and the organisation's budgets."""
        board = (await self.pages.link.board_follower()).board
        budgets, refused = await answer_or_refusal(self.pages.link.budgets())
        bars = [(each, organisation_bars(each)) for each in budgets or ()]
        return self.pages.page(
            request, "repositories.html", board, accounts=repository_accounts(board), budgets=bars, refused=refused
        )

    async def repository(self, request: Request) -> Response:
        """Show one repository (``url``) by its runs."""
        board = (await self.pages.link.board_follower()).board
        account = repository_account(board, request.query_params.get("url", ""))
        if account is None:
            error = MalformedError("there is no run of that repository", code="run_unknown")
            return self.pages.refused(request, error)
        flaky, refused = await answer_or_refusal(self.pages.link.flaky_tests(account.url))
        return self.pages.page(
            request, "repository.html", board, account=account, most=MOST_ENDED_SHOWN, flaky=flaky, refused=refused
        )

    async def merge_queues(self, request: Request) -> Response:
        """Show the merge queues: the line of positions of each branch, waiting runs and holds."""
        board = (await self.pages.link.board_follower()).board
        queues, refused = await answer_or_refusal(self.pages.link.merge_queues())
        return self.pages.page(request, "merge.html", board, queues=queues or (), refused=refused)

    async def agents(self, request: Request) -> Response:
        """Show the probe results of each agent of this host."""
        board = (await self.pages.link.board_follower()).board
        found = await asyncio.to_thread(probed_agents, self.home)
        return self.pages.page(request, "agents.html", board, agents=found)

    async def system(self, _request: Request) -> Response:
        """Roles, queues and dead letters as they are now, as a part of the board."""
        async with self._looking:
            now = self.pages.clock.monotonic()
            if self._seen is None or now - self._seen[0] >= _FRESH:
                self._seen = (now, await self._draw())
            return HTMLResponse(self._seen[1])

    async def _draw(self) -> str:
        seen, words = None, "hidden. To show it, start the console with an observer's or operator's seed (--observer-seed)"
        if self.look is not None:
            try:
                seen = await self.look()
            except GatewrightError as error:
                words = f"{error.reason}: {error.message}"
        template = self.pages.templates.get_template("system.html")
        findings = judge(seen) if seen is not None else ()
        roles = sorted({each.role for each in seen.processes}) if seen is not None else []
        return template.render(look=seen, findings=findings, words=words, roles=roles)
