"""What waits for people, for a host to point at. A host never decides: an answer is signed with a person's own key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from mcp_types import CallToolResult
from msgspec.structs import replace
from pydantic import Field

from gatewright.app.cli.hosts.answers import answer, told
from gatewright.app.cli.hosts.connection import HostAccess
from gatewright.app.cli.hosts.run_tools import RunName
from gatewright.app.cli.runs.sources import find_run
from gatewright.contracts.run_status import MovedTarget
from gatewright.rules.people.delegations import holders
from gatewright.run.state import AskedApproval, Run
from gatewright.view.run_view import RunView
from gatewright.work_documents.request_summary import gate_standing, request_summary, yes_words

_MOST = 50


@dataclass(frozen=True, slots=True)
class ApprovalTools:
    """Read from the publisher's own runs, so that no approver's identity is needed here."""

    access: HostAccess

    @told
    async def list_approvals(
        self,
        run_id: RunName | None = None,
        limit: Annotated[int, Field(ge=1, le=_MOST)] = 20,
    ) -> CallToolResult:
        """What this publisher's runs wait for people for, and the command by which a person decides. Decides nothing.

        Every run that has not ended is looked at. ``total`` counts the requests; ``waiting`` holds the first ``limit`` of them.
        """
        async with self.access.runs() as source:
            if run_id is not None:
                wanted = await find_run(source, run_id)
                views, moved = [await source.view(wanted)], (await source.claims(wanted)).moved
            else:
                page = await source.open_runs()
                views, moved = list(page.views), page.claims.moved
        waiting = [approval_entry(view, each, moved.get(view.run.run_id)) for view in views for each in _pending(view.run)]
        return answer({"waiting": waiting[:limit], "total": len(waiting), "looked_at": len(views)})


def _pending(run: Run) -> list[AskedApproval]:
    return [each for each in run.approvals.values() if each.status == "pending"] if not run.ended else []


def approval_entry(view: RunView, asked: AskedApproval, moved: MovedTarget | None = None) -> dict[str, Any]:
    """What a host shows of a request; what would go to providers of models is listed in full."""
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
