"""Runs of the ledger, with their waits and the processes that claim their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from gatewright.app.cli.runs.sources import RunPage, existing, unknown_run
from gatewright.app.cli.runs.waits import Wait, WaitFinder
from gatewright.app.feed.claims import ReportedClaims, claims_of
from gatewright.app.feed.link import may_ask
from gatewright.client.client import Client
from gatewright.client.refusals import UNANSWERED
from gatewright.contracts.run_status import FlakyTests, MovedTarget
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.view.run_view import RunView, view_of
from gatewright.view.stages import view_with_stages

#: Maximum runs that are read concurrently, and that a search by a beginning of an id returns.
_AT_ONCE = 8
_SOME = 50
#: Open runs per request; all are read.
_OPEN_RUNS = 200


class LedgerSource:
    """Runs of the ledger. ``home``: home folder of the local system, if any."""

    def __init__(self, client: Client, home: Path | None = None) -> None:
        self._client = client
        self._waits = WaitFinder(client.bus, home, client.merge_queues)

    async def page(self, limit: int, before: str | None) -> RunPage:
        try:
            listed = await self._client.list_runs(limit=limit, before=before)
        except UnavailableError as error:
            if error.reason not in UNANSWERED:
                raise
            # Without a gatekeeper only the ledger itself can be read.
            newest_first = [run.run_id for run in reversed(await self._client.runs())]
            run_ids, more = _page(newest_first, limit, before)
            return RunPage(await self._views(run_ids), more)
        return RunPage(await self._views(run.run_id for run in listed.runs), listed.more, claims_of(listed))

    async def open_runs(self) -> RunPage:
        """Return every open run, however old, newest first."""
        views: list[RunView] = []
        silent: dict[str, str] = {}
        moved: dict[str, MovedTarget] = {}
        before: str | None = None
        while True:
            try:
                listed = await self._client.list_runs(limit=_OPEN_RUNS, before=before, open_only=True)
            except UnavailableError as error:
                if error.reason not in UNANSWERED:
                    raise
                every = await self._views(run.run_id for run in reversed(await self._client.runs()))
                return RunPage(tuple(view for view in every if not view.run.ended), more=False)
            views += await self._views(run.run_id for run in listed.runs)
            claims = claims_of(listed)
            silent.update(claims.silent)
            moved.update(claims.moved)
            if not listed.more or not listed.runs:
                return RunPage(tuple(views), more=False, claims=ReportedClaims(silent=silent, moved=moved))
            before = listed.runs[-1].run_id

    async def beginning(self, prefix: str) -> tuple[str, ...]:
        try:
            listed = await self._client.list_runs(limit=_SOME, prefix=prefix)
        except UnavailableError as error:
            if error.reason not in UNANSWERED:
                raise
            return tuple(run.run_id for run in await self._client.runs() if run.run_id.startswith(prefix))
        return tuple(run.run_id for run in listed.runs)

    async def _views(self, run_ids: Iterable[str]) -> tuple[RunView, ...]:
        """Return the view of each run; runs with an unreadable history are skipped."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def read(run_id: str) -> RunView | None:
            async with places:
                try:
                    return view_of(await self._client.events(run_id))
                except MalformedError:
                    return None

        return tuple([view for view in await asyncio.gather(*map(read, run_ids)) if view is not None])

    async def view(self, run_id: str) -> RunView:
        return existing(view_with_stages(await self._client.events(run_id)), run_id)

    async def output(self, uri: str) -> bytes:
        return await self._client.get_artifact(uri)

    async def waits(self, view: RunView) -> tuple[Wait, ...]:
        return await self._waits.waits_of(view)

    async def system_waits(self) -> tuple[Wait, ...]:
        return await self._waits.system_waits()

    async def flaky_tests(self, repository: str, seconds: int) -> FlakyTests:
        return await self._client.flaky_tests(repository, since_seconds=seconds)

    async def claims(self, run_id: str) -> ReportedClaims:
        if not may_ask(self._client):
            return ReportedClaims()
        try:
            return claims_of(await self._client.list_runs(limit=1, prefix=run_id))
        except GatewrightError:
            return ReportedClaims()  # optional: the ledger has the state of the run


def _page(newest_first: Sequence[str], limit: int, before: str | None) -> tuple[Sequence[str], bool]:
    """Return the runs of one page, and whether there are older ones. Raises MalformedError (``run_unknown``)."""
    if before is not None:
        if before not in newest_first:
            raise unknown_run(before)
        newest_first = newest_first[newest_first.index(before) + 1 :]
    return newest_first[:limit], len(newest_first) > limit
