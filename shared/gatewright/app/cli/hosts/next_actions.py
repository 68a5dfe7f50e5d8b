"""What a person can do next about a publisher's runs, most urgent first, for a host to point at. None of it is done here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from mcp_types import CallToolResult
from pydantic import Field

from gatewright.app.cli.hosts.answers import answer, told
from gatewright.app.cli.hosts.connection import HostAccess
from gatewright.app.cli.runs.sources import RunPage
from gatewright.app.feed.claims import ToldClaims
from gatewright.clock import SystemClock
from gatewright.reasons import advice_for
from gatewright.run.state import Run
from gatewright.view.board import Board
from gatewright.view.needs import Need, needs_of
from gatewright.view.rows import BoardRow, row_of, with_target
from gatewright.view.run_view import RunView

_MOST = 50


@dataclass(frozen=True, slots=True)
class NextActionTools:
    """Read from the publisher's own runs, by the rules of the live page. Dead letters take an operator's identity."""

    access: HostAccess

    @told
    async def next_actions(self, limit: Annotated[int, Field(ge=1, le=_MOST)] = 20) -> CallToolResult:
        """What a person can do next about this publisher's runs, with the commands to type. Does none of it.

        Open questions and silent runs first, of all open runs. Then the newest ``limit`` runs: failed ones,
        then landed ones.
        """
        async with self.access.runs() as source:
            waiting, newest = await source.open_runs(), await source.page(limit, None)
        looked_at = {run.run_id for run in (*waiting.runs, *newest.runs)}
        return answer({"actions": list(_actions(waiting, newest)), "looked_at": len(looked_at)})


def _actions(waiting: RunPage, newest: RunPage) -> Iterator[dict[str, Any]]:
    board = Board(rows={view.run.run_id: _row(view, waiting.claims) for view in waiting.views})
    yield from map(_need_entry, needs_of(board, (), SystemClock().now(), waiting.claims.silent))
    ended = [run for run in newest.runs if run.ended]
    yield from (_failure_entry(run) for run in ended if run.failure is not None)
    yield from (_landing_entry(run) for run in ended if run.landed is not None and run.landed.commit)


def _row(view: RunView, claims: ToldClaims) -> BoardRow:
    row = row_of(view, 0)
    return with_target(row, claims.moved.get(view.run.run_id))


def _need_entry(need: Need) -> dict[str, Any]:
    return {
        "kind": need.kind,
        "run_id": need.run_id,
        "who": need.who,
        "why": need.why,
        "on_silence": need.on_silence,
        "commands": need.commands,
        "summary": msgspec.to_builtins(need.summary),
    }


def _failure_entry(run: Run) -> dict[str, Any]:
    code = run.failure.code if run.failure is not None else ""
    return {
        "kind": "failed",
        "run_id": run.run_id,
        "who": "the publisher",
        "why": code,
        "advice": advice_for(code, run.run_id),
        "commands": (f"gatewright show {run.run_id}",),
    }


def _landing_entry(run: Run) -> dict[str, Any]:
    landed = run.landed
    return {
        "kind": "landed",
        "run_id": run.run_id,
        "who": "the publisher",
        "why": f"{landed.ref} at {landed.commit}" if landed is not None else "",
        "commands": (f"gatewright verify {run.run_id}",),
    }
