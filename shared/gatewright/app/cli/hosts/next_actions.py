"""Pending requests and possible next actions of people for a publisher's runs, for a host to display.

A host performs none of them and never decides. An answer is signed with a person's own key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from mcp_types import CallToolResult
from msgspec.structs import replace
from pydantic import Field

from gatewright.app.cli.hosts.access import HostAccess, answer, refuse_known_errors
from gatewright.app.cli.hosts.run_tools import RunName
from gatewright.app.cli.runs.sources import RunPage, find_run
from gatewright.app.feed.claims import ReportedClaims
from gatewright.clock import SystemClock
from gatewright.contracts.run_status import MovedTarget
from gatewright.reasons import advice_for
from gatewright.rules.people.delegations import holders
from gatewright.run.state import AskedApproval, Run
from gatewright.view.board import Board
from gatewright.view.needs import Need, needs_of
from gatewright.view.rows import BoardRow, row_of, with_target
from gatewright.view.run_view import RunView
from gatewright.work_documents.request_summary import gate_standing, request_summary, yes_words

_MOST = 50


@dataclass(frozen=True, slots=True)
class NextActionTools:
    """Tools that read the publisher's own runs, with the rules of the live page. Dead letters need an operator's identity."""

    access: HostAccess

    @refuse_known_errors
    async def next_actions(self, limit: Annotated[int, Field(ge=1, le=_MOST)] = 20) -> CallToolResult:
        """List what a person can do next about this publisher's runs, with the commands to type. It does none of them.

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


def _row(view: RunView, claims: ReportedClaims) -> BoardRow:
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


@dataclass(frozen=True, slots=True)
class ApprovalTools:
    """Tools that read the publisher's own runs, so that no approver's identity is needed here."""

    access: HostAccess

    @refuse_known_errors
    async def list_approvals(
        self,
        run_id: RunName | None = None,
        limit: Annotated[int, Field(ge=1, le=_MOST)] = 20,
    ) -> CallToolResult:
        """List the open requests for people of this publisher's runs, with the command to decide. It decides nothing.

        It covers every open run. ``total`` counts the requests; ``waiting`` holds the first ``limit`` of them.
        """
        async with self.access.runs() as source:
            if run_id is not None:
                wanted = await find_run(source, run_id)
                views, moved = [await source.view(wanted)], (await source.claims(wanted)).moved
            else:
                page = await source.open_runs()
                views, moved = list(page.views), page.claims.moved
        waiting = [
            approval_entry(view, each, moved.get(view.run.run_id)) for view in views for each in _pending_approvals(view.run)
        ]
        return answer({"waiting": waiting[:limit], "total": len(waiting), "looked_at": len(views)})


def _pending_approvals(run: Run) -> list[AskedApproval]:
    return [each for each in run.approvals.values() if each.status == "pending"] if not run.ended else []


def approval_entry(view: RunView, asked: AskedApproval, moved: MovedTarget | None = None) -> dict[str, Any]:
    """Describe a request for a host. Everything that would be sent to model providers is listed in full."""
    request = asked.request
    summary = replace(request_summary(view.run, asked, map(gate_standing, view.gates)), moved=moved)
    return {
        "request_id": request.request_id,
        "run_id": request.run_id,
        "why": summary.why,
        "summary": msgspec.to_builtins(summary),
        "transfers": msgspec.to_builtins(request.transfers),
        "rule": request.rule,
        "risk": request.risk,
        "approvers": holders(asked),
        "expires_at": request.expires_at,
        "on_silence": summary.on_silence,
        "on_yes": yes_words(request, summary),
        "decide_with": f"gatewright approvals show {request.request_id}",
    }
