"""Needs: approvals, silent runs, dead letters and unreadable histories, which need a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

from gatewright.clock import timestamp
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalSummary
from gatewright.tasks.dead_letters import DeadLetter
from gatewright.view.board import Board
from gatewright.view.rows import BoardRow, is_silent

NeedKind = Literal["approval", "silent_run", "dead_letter", "unreadable_run"]


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person.

    ``key`` is a stable id. ``who``: person or role to act. ``why``: reason. ``since``: RFC 3339. ``on_silence``: what happens
    without an answer, at the time ``until``.

    ``commands``: the commands to type, in order. Nothing is decided without them.
    """

    key: str
    kind: NeedKind
    who: str
    why: str
    since: str
    on_silence: str
    commands: tuple[str, ...]
    run_id: str = ""
    until: str = ""
    risk: str = ""
    #: Summary of the decision; only for an approval.
    summary: ApprovalSummary | None = None


def needs_of(
    board: Board, letters: Sequence[DeadLetter], now: datetime, silent: Mapping[str, str] = MappingProxyType({})
) -> tuple[Need, ...]:
    """Return everything that needs a person, longest wait first.

    Args:
        board: the board.
        letters: open dead letters.
        now: current time.
        silent: run id -> time since which the tasks of the run are not claimed.
    """
    open_rows = [row for row in board.rows.values() if row.is_open]
    found = [
        *(need for row in open_rows for need in _approval_needs(row)),
        *(_silent(row, silent.get(row.run_id, "")) for row in open_rows if row.run_id in silent or is_silent(row, now)),
        *(_letter(letter) for letter in letters if letter.decision is None),
        *(_unreadable(run_id, why) for run_id, why in board.unreadable.items()),
    ]
    return tuple(sorted(found, key=lambda need: (need.since, need.key)))


def approval_commands(request: ApprovalRequest) -> tuple[str, ...]:
    """Return the commands that show a request and answer it. Ids contain no characters that are special in a shell."""
    if request.reason == "review":
        return (f"gatewright approvals show {request.request_id}", f"gatewright review vote {request.request_id}")
    return (
        f"gatewright approvals show {request.request_id}",
        f"gatewright approvals approve {request.request_id}",
        f"gatewright approvals reject {request.request_id}",
        f"gatewright approvals delegate {request.request_id} --to NAME",
    )


def _approval_needs(row: BoardRow) -> Iterator[Need]:
    for request, whom, summary in zip(row.asks, row.asked, row.summaries, strict=True):
        yield Need(
            key=request.request_id,
            kind="approval",
            who=", ".join(whom),
            why=summary.why,
            since=request.created_at,
            on_silence=summary.on_silence,
            commands=approval_commands(request),
            run_id=row.run_id,
            until=request.expires_at,
            risk=request.risk,
            summary=summary,
        )


def _silent(row: BoardRow, unclaimed_since: str) -> Need:
    has = ", ".join(f"{task.role} ({task.pool})" for task in row.in_hand)
    cause = "no process claims its tasks" if unclaimed_since else "no event for longer than its tasks may take"
    why = f"{cause}; open tasks of {has}" if has else "no event, and no open task"
    return Need(
        key=f"silent:{row.run_id}",
        kind="silent_run",
        who="an operator",
        why=why,
        since=unclaimed_since or row.last_at,
        on_silence="the run continues, or ends when its budget is used up",
        commands=("gatewright doctor", f"gatewright show {row.run_id}", f"gatewright abort {row.run_id}"),
        run_id=row.run_id,
    )


def _letter(letter: DeadLetter) -> Need:
    return Need(
        key=f"letter:{letter.sequence}",
        kind="dead_letter",
        who="an operator",
        why=f"{letter.role}: {letter.code}: {letter.reason}",
        since=timestamp(datetime.fromtimestamp(letter.at, UTC)),
        on_silence="the message stays stored",
        commands=(f"gatewright dead show {letter.sequence}", f"gatewright dead requeue {letter.sequence}"),
    )


def _unreadable(run_id: str, why: str) -> Need:
    return Need(
        key=f"unreadable:{run_id}",
        kind="unreadable_run",
        who="an operator",
        why=why,
        since="",
        on_silence="no gatekeeper moves this run",
        commands=("gatewright doctor",),
        run_id=run_id,
    )
