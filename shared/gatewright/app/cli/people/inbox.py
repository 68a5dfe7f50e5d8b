"""The inbox: open requests with their urgency and rule, and statistics of answers by rule.

It has ``approvals list``, ``show`` and ``stats``, and the connection that all commands about approvals use.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.client.approvals import ApprovalInbox
    from gatewright.contracts.people.approvals import ApprovalStanding, GrantStanding

#: Maximum characters of a line of the list.
_MOST_LINE = 200
_RISKS = {"high": 0, "medium": 1, "low": 2}
_STATUSES = ("pending", "approved", "rejected", "expired", "withdrawn", "autopilot", "granted", "lapsed")
_PATIENCE = 3.0
#: Maximum requests of one answer.
MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStatistics:
    """One rule of ``approvals stats --json``. ``median_wait_sec``: over decisions of people; None without any."""

    rule: str
    asked: int
    pending: int
    approved: int
    rejected: int
    expired: int
    withdrawn: int
    autopilot: int
    granted: int
    lapsed: int
    median_wait_sec: float | None


@reported
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Include answered, expired and withdrawn requests")] = False,
    json_output: JsonOutput = False,
) -> None:
    """List open requests, most urgent first."""
    import asyncio

    from gatewright.clock import SystemClock

    found = most_urgent_first(asyncio.run(_list_standings(everything=everything)))
    if json_output:
        emit({"approvals": [document_of(each) for each in found]})
        return
    for line in table(found, SystemClock().now()):
        write_line(line)


@reported
def show(
    name: Annotated[str, typer.Argument(metavar="REQUEST|RUN", help="Request id, or the run that asks")],
    json_output: JsonOutput = False,
) -> None:
    """Show a request: reason, rule, verdicts and change."""
    import asyncio

    found = named(asyncio.run(_detail_standings(name.partition(".ask.")[0])), [name])
    if json_output:
        emit({"approvals": [document_of(each) for each in found]})
        return
    for each in found:
        for line in [*page(each), ""]:
            write_line(line)


@reported
def stats(json_output: JsonOutput = False) -> None:
    """Show requests, answers and response times for each rule."""
    import asyncio

    import msgspec

    found = statistics_of(asyncio.run(_list_standings(everything=True)))
    if json_output:
        emit({"rules": [msgspec.to_builtins(each) for each in found]})
        return
    for line in statistics_table(found):
        write_line(line)


async def _list_standings(*, everything: bool) -> tuple[ApprovalStanding, ...]:
    from gatewright.app.cli.context import find_place
    from gatewright.contracts import ApprovalsRequest

    async with open_inbox(find_place()) as inbox:
        return (await inbox.listed(ApprovalsRequest(pending_only=not everything, limit=MOST))).approvals


async def _detail_standings(run_id: str) -> tuple[ApprovalStanding, ...]:
    from gatewright.app.cli.context import find_place
    from gatewright.contracts import ApprovalsRequest

    async with open_inbox(find_place()) as inbox:
        return (await inbox.listed(ApprovalsRequest(run_id=run_id, details=True, limit=MOST))).approvals


def for_approver(place: CommandContext, seed: Path | None) -> CommandContext | None:
    """Return the context with the identity of an approver; for a bus that was named, that of ``seed``, None without it.

    Raises ConfigurationError (``identity_invalid``) for the seed of another identity.
    """
    from gatewright.bus.identities import APPROVER, load
    from gatewright.errors import ConfigurationError

    if place.bus is None:
        return place
    if seed is None:
        return None
    if (named := load(seed).identity) != APPROVER:
        raise ConfigurationError(f"{seed} is the seed of {named}: decisions are brought by {APPROVER}", code="identity_invalid")
    return replace(place, bus=replace(place.bus, seed=seed))


@contextlib.asynccontextmanager
async def open_inbox(place: CommandContext) -> AsyncIterator[ApprovalInbox]:
    """Open the inbox of the running system.

    Raises:
        UnavailableError: ``no_stack`` or ``stack_gone``.
        BusError: the bus cannot be reached.
        ConfigurationError: the seed's identity is not an approver.
    """
    from gatewright.app.cli.session import while_it_runs
    from gatewright.app.stack.state import read
    from gatewright.bus.identities import APPROVER
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.client.approvals import ApprovalInbox
    from gatewright.errors import UnavailableError

    address = place.bus
    running: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
    if address is None:
        state = read(place.home)
        if state is None:
            words = "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL and the seed of an approver"
            raise UnavailableError(words, code="no_stack")
        address, running = state.address(APPROVER), while_it_runs(place.home, state.url)
    bus = await JetStreamBus.connect(address, name=APPROVER, patience=_PATIENCE)
    try:
        async with running:
            yield ApprovalInbox(bus)
    finally:
        await bus.close()


async def waiting(inbox: ApprovalInbox) -> tuple[ApprovalStanding, ...]:
    """Return all open requests."""
    from gatewright.contracts import ApprovalsRequest

    return (await inbox.listed(ApprovalsRequest(pending_only=True, limit=MOST))).approvals


def document_of(standing: ApprovalStanding | GrantStanding) -> dict[str, Any]:
    """Build one entry of ``approvals list`` or ``approvals grants`` with ``--json``."""
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(standing)
    return plain


def most_urgent_first(approvals: Iterable[ApprovalStanding]) -> list[ApprovalStanding]:
    """Sort by risk, then by remaining time."""
    return sorted(approvals, key=lambda each: (_RISKS[each.request.risk], each.request.expires_at))


def table(approvals: Sequence[ApprovalStanding], now: datetime) -> list[str]:
    """Format the list."""
    from gatewright.app.cli.queues import age

    width = max((len(each.request.request_id) for each in approvals), default=7)
    lines = [f"{'REQUEST':<{width}} {'RISK':<6} {'STATUS':<9} {'AGE':>7} {'LEFT':>7}  RULE"]
    for each in approvals:
        request = each.request
        left = _seconds(now, request.expires_at) if each.status == "pending" else 0.0
        lines.append(
            f"{request.request_id:<{width}} {request.risk:<6} {each.status:<9} {age(_seconds(request.created_at, now)):>7} "
            f"{age(left) if each.status == 'pending' else '-':>7}  {printable(request.rule)}{_delegation_words(each)}"
        )
        lines += [f"  {name:<11} {value[:_MOST_LINE]}" for name, value in facts_of(each).items()]
    return lines


def facts_of(standing: ApprovalStanding) -> dict[str, str]:
    """Return a summary of the decision as names and printable lines; empty if an older gatekeeper sent none."""
    from gatewright.work_documents.request_summary import summary_facts

    request = standing.request
    summary = standing.summary
    facts = (
        summary_facts(summary)
        if summary is not None
        else {
            "asked": f'"{request.user_request}"',
            "ordered by": f"publisher {request.publisher}, for {request.requested_by}",
            "why": f"{request.rule}: {request.why}",
            "comments": ", ".join(standing.comments) or "none",
        }
    )
    return {name: printable(value) for name, value in facts.items()}


def _delegation_words(standing: ApprovalStanding) -> str:
    return printable(f" (handed to {standing.delegations[-1].to})") if standing.delegations else ""


def page(standing: ApprovalStanding) -> list[str]:
    """Format one request with everything that a person needs to decide."""
    from gatewright.rules.approvals import tree_words
    from gatewright.rules.people.delegations import holders
    from gatewright.rules.transfers import transfer_lines
    from gatewright.work_documents.request_summary import yes_words

    request = standing.request
    who = f" by {standing.decided_by} at {standing.decided_at}" if standing.decided_by else ""
    facts = {
        "request": request.request_id,
        "status": f"{standing.status}{who}",
        **facts_of(standing),
        "rule": f"{request.rule} ({request.reason}, risk {request.risk})",
        "repository": f"{request.repository} at {request.baseline_commit}",
        "contract": f"sha256:{request.contract_sha256}",
        "tree": tree_words(request),
        "who": f"{', '.join(holders(standing))}{'' if request.yourself else ', not about a run of their own'}",
        "until": request.expires_at,
        "on yes": yes_words(request, standing.summary) if standing.summary is not None else request.on_yes,
        "on no": request.on_no,
        "on silence": standing.summary.on_silence if standing.summary is not None else request.on_silence,
        "phrase": request.phrase or "none",
    }
    lines = [f"{name:<11} {printable(value)}" for name, value in facts.items()]
    lines += [printable(f"{'sends':<11} {line}") for line in transfer_lines(request.transfers)]
    lines += [printable(f"{'handed on':<11} by {each.person} to {each.to} at {each.at}") for each in standing.delegations]
    lines += [f"gate        {gate.gate}: {gate.verdict} ({printable(gate.code)})" for gate in standing.gates]
    if standing.patch:
        lines += ["", *(printable(line) for line in standing.patch.splitlines())]
        missing = standing.patch_bytes - len(standing.patch.encode())
        lines += [f"... and {missing} bytes more"] if missing > 0 else []
    return lines


def named(approvals: Sequence[ApprovalStanding], names: Sequence[str]) -> list[ApprovalStanding]:
    """Return the requests of ``names``: each is a request, or a run with all its open requests.

    Raises MalformedError (``approval_unknown``).
    """
    from gatewright.errors import MalformedError

    found: dict[str, ApprovalStanding] = {}
    for name in names:
        mine = [each for each in approvals if name in {each.request.request_id, each.request.run_id}]
        if not mine:
            raise MalformedError(f"nothing waits for an answer under {name}", code="approval_unknown")
        found |= {each.request.request_id: each for each in mine}
    return list(found.values())


def statistics_of(approvals: Iterable[ApprovalStanding]) -> list[RuleStatistics]:
    """Count requests and answers by rule, which shows rules that are always approved."""
    by_rule: dict[str, list[ApprovalStanding]] = {}
    for each in approvals:
        by_rule.setdefault(each.request.rule, []).append(each)
    return [_statistics(rule, found) for rule, found in sorted(by_rule.items())]


def statistics_table(found: Sequence[RuleStatistics]) -> list[str]:
    """Format the statistics."""
    from gatewright.app.cli.queues import age

    width = max((len(each.rule) for each in found), default=4)
    people = f"{'ASKED':>5} {'WAIT':>5} {'YES':>5} {'NO':>5} {'SILENT':>6}"
    lines = [f"{'RULE':<{width}} {people} {'BY RULE':>7} {'GRANTED':>7} {'MEDIAN':>7}"]
    for each in found:
        wait = "-" if each.median_wait_sec is None else age(each.median_wait_sec)
        people = f"{each.asked:>5} {each.pending:>5} {each.approved:>5} {each.rejected:>5} {each.expired:>6}"
        counts = f"{people} {each.autopilot:>7} {each.granted:>7}"
        lines.append(f"{each.rule:<{width}} {counts} {wait:>7}")
    return lines


def _statistics(rule: str, found: Sequence[ApprovalStanding]) -> RuleStatistics:
    from statistics import median

    count = {status: sum(each.status == status for each in found) for status in _STATUSES}
    waits = [_seconds(each.request.created_at, each.decided_at) for each in found if each.status in {"approved", "rejected"}]
    return RuleStatistics(rule=rule, asked=len(found), median_wait_sec=median(waits) if waits else None, **count)


def _seconds(since: str | datetime, until: str | datetime) -> float:
    begin, end = (datetime.fromisoformat(each) if isinstance(each, str) else each for each in (since, until))
    return max(0.0, (end - begin).total_seconds())
