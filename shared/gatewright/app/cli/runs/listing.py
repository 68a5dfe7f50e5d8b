"""Runs as a list, and one run in detail, for programs and for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gatewright.app.cli.runs.result import FailureResult, RunResult, closing_words, failure_of, result_of
from gatewright.app.cli.runs.waits import Wait, wait_lines
from gatewright.app.feed.claims import ReportedClaims
from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import InventorySummary
from gatewright.environment_inventory.summary import summary_words
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.choice import standings, why_chosen
from gatewright.run.state import RunTask
from gatewright.run.states import stage_name
from gatewright.view.budgets import BudgetEntry, budget_entry, budget_words
from gatewright.view.rows import TaskInHand, tasks_in_hand
from gatewright.view.run_view import RunView, moment, seconds_between
from gatewright.view.safe_text import fit, printable
from gatewright.view.sentences import consulted_words, consulting_roles, proof_lines, violation_lines
from gatewright.view.stages import PAGE_WIDTH, stage_text, title_lines
from gatewright.work_documents.candidates import HEADINGS, CandidateRow, cells_of, rows_of

#: Maximum characters of a request in a list without a terminal.
_REQUEST_WIDTH = 60
#: Minimum characters of an abbreviated run id; minimum columns for full ids.
_LEAST_ID = 12
FULL_WIDTH = 100
#: Maximum characters of an agent's own description of its work.
_SUMMARY_WIDTH = 100


class RunEntry(msgspec.Struct, frozen=True):
    """One entry of ``runs --json``. ``silent_since``: time since which claims of dispatched tasks are missing.

    ``in_hand``: dispatched tasks without an answer, with their times and the processes that claim them, as on the board.
    """

    run_id: str
    status: str
    state: str
    attempt: int
    created_at: str
    finished_at: str | None
    duration_sec: float | None
    request: str
    repository: str
    publisher: str
    failure: FailureResult | None
    silent_since: str | None = None
    in_hand: tuple[TaskInHand, ...] = ()
    kind: str = "change"


class TaskEntry(msgspec.Struct, frozen=True):
    """``agent``: who made the change, by the task's own result. ``asked``: the coding agent or model of the task, if any."""

    task_id: str
    role: str
    status: str
    attempt: int
    agent: str | None
    asked: str | None = None
    #: The pool of its processes.
    pool: str = DEFAULT_POOL


class RunDetails(msgspec.Struct, frozen=True):
    """The document of ``show --json``."""

    run: RunEntry
    result: RunResult
    baseline: str
    budget: BudgetEntry
    tasks: tuple[TaskEntry, ...]
    gates: tuple[GateReport, ...]
    waits: tuple[Wait, ...] = ()
    candidates: tuple[CandidateRow, ...] = ()
    environment: InventorySummary | None = None


def run_entry(view: RunView, claims: ReportedClaims | None = None) -> RunEntry:
    """Build an entry. ``claims``: claims of tasks, of this run and others."""
    run, heard = view.run, claims or ReportedClaims()
    return RunEntry(
        run_id=run.run_id,
        status=run.status,
        state=run.state,
        attempt=run.attempt,
        created_at=run.created_at,
        finished_at=run.finished_at or None,
        duration_sec=round(seconds_between(run.created_at, run.finished_at), 3) if run.finished_at else None,
        request=run.accepted.user_request,
        repository=run.accepted.repository_url,
        publisher=run.publisher,
        failure=failure_of(view),
        silent_since=None if run.ended else heard.silent.get(run.run_id),
        in_hand=tasks_in_hand(run, view.dispatched, heard.processes.get(run.run_id, {})),
        kind=run.kind.name,
    )


def run_details(
    view: RunView, now: datetime | None = None, waits: Sequence[Wait] = (), claims: ReportedClaims | None = None
) -> RunDetails:
    """Describe one run for programs. ``now``: by default its last event. ``claims``: as in ``run_entry``."""
    tasks = tuple(
        TaskEntry(
            task_id=task.task_id,
            role=task.role,
            pool=task.pool,
            status=task.status,
            attempt=task.attempt,
            agent=task.result.producer.agent_id if task.result else None,
            asked=asked_words(task) or None,
        )
        for task in view.run.tasks.values()
    )
    budget = budget_entry(view, now)
    baseline, run = view.run.accepted.baseline_commit, run_entry(view, claims)
    rows, environment = rows_of(view.run, view.gates), view.run.tests.inventory if view.run.tests is not None else None
    return RunDetails(run, result_of(view), baseline, budget, tasks, view.gates, tuple(waits), rows, environment)


def run_table(entries: Sequence[RunEntry], width: int | None = None) -> list[str]:
    """Format the list within ``width`` columns of a terminal; with None every column is complete."""
    if not entries:
        return ["no runs yet; start one with `gatewright run`"]
    states = [printable(_state_words(entry)) for entry in entries]
    begun = [moment(entry.created_at).astimezone() for entry in entries]
    took = [f"{'-' if entry.duration_sec is None else f'{entry.duration_sec:.1f} s':>8}" for entry in entries]
    kinds = ("" if entry.kind == "change" else f"{entry.kind}: " for entry in entries)
    requests = [kind + printable(" ".join(entry.request.split())) for kind, entry in zip(kinds, entries, strict=True)]
    ids = [entry.run_id for entry in entries]
    rows: list[tuple[str, ...]]
    if width is None:
        started = (f"{each:%Y-%m-%d %H:%M:%S}" for each in begun)
        rows = [
            ("RUN", "STATUS", "STATE", "STARTED", "    TOOK"),
            *zip(ids, (e.status for e in entries), states, started, took, strict=True),
        ]
    else:
        ids = ids if width >= FULL_WIDTH else short_ids(ids)
        rows = [("RUN", "STATE"), *zip(ids, states, strict=True)]
        if width >= PAGE_WIDTH:
            started = (f"{each:%m-%d %H:%M}" for each in begun)
            rows = [("RUN", "STATE", "STARTED", "    TOOK"), *zip(ids, states, started, took, strict=True)]
    return table_lines(rows, ["REQUEST", *requests], width)


def table_lines(rows: Sequence[Sequence[str]], last: Sequence[str], width: int | None) -> list[str]:
    """Format aligned columns, then a ``last`` one that fills the remaining ``width``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    space = max(len("REQUEST"), (width or sum(widths) + 2 * len(widths) + _REQUEST_WIDTH) - sum(widths) - 2 * len(widths))
    lines = ["  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)) for row in rows]
    return [f"{line}  {fit(words, space)}".rstrip() for line, words in zip(lines, last, strict=True)]


def short_ids(ids: Sequence[str]) -> list[str]:
    """Abbreviate ``ids`` as far as they stay unique, to at least ``run-`` with eight digits."""
    length = next(n for n in range(_LEAST_ID, 99) if len({each[:n] for each in ids}) == len(set(ids)))
    return [each[:length] for each in ids]


def _state_words(entry: RunEntry) -> str:
    """Format the reason of a failure, or else the state, and the time since which claims are missing."""
    words = entry.failure.code if entry.failure else stage_name(entry.state)
    return words if entry.silent_since is None else f"{words}, silent since {moment(entry.silent_since).astimezone():%H:%M:%S}"


def run_story(
    view: RunView,
    now: datetime | None = None,
    waits: Sequence[Wait] = (),
    claims: ReportedClaims | None = None,
    *,
    verbose: bool = False,
    width: int | None = None,
) -> list[str]:
    """Format one run: its stages and closing lines, or with ``verbose`` every task and gate."""
    lines = [*title_lines(view.run, width or PAGE_WIDTH), ""]
    lines += _every_detail(view, now) if verbose else []
    lines += [stage_text(stage, width) for stage in view.stages]
    if (environment := view.run.tests.inventory if view.run.tests is not None else None) is not None:
        lines.append(f"· environment  {printable(summary_words(environment))}")
    at_work = run_entry(view, claims).in_hand
    lines += [f"· now       {task.role} {printable(view.short(task.task_id))}{_at_work(task)}" for task in at_work]
    lines += [f"! waiting   {words}" for words in wait_lines(waits)]
    return [*lines, "", *closing_words(view, evidence=f"gatewright verify {view.run.run_id}", width=width)]


def _every_detail(view: RunView, now: datetime | None) -> list[str]:
    run = view.run
    lines = [
        f"  state      {run.status}   {stage_name(run.state)}{'' if run.kind.lands else f'   {run.kind.name} run'}",
        f"  repository {printable(run.accepted.repository_url)} at {run.accepted.baseline_commit or 'no commit'}",
    ]
    asked = printable(" ".join(run.accepted.requested_by.split()))
    lines.append(f"  publisher  {printable(run.publisher)}" + (f" (reports: requested by {asked})" if asked else ""))
    if run.contract is not None and run.contract.allowed_paths:
        lines.append(f"  may change {printable(', '.join(run.contract.allowed_paths))}")
    if run.contract is not None and run.contract.requirement_ids:
        lines.append(f"  for        {printable(', '.join(run.contract.requirement_ids))}")
    if run.pools:
        lines.append(f"  pools      {printable(', '.join(f'{role}: {pool}' for role, pool in run.pools.items()))}")
    if budget := budget_words(budget_entry(view, now)):
        lines.append(f"  used       {budget}")
    for role, asked_of in consulting_roles(run):
        lines += [
            f"  {role if not number else '':10} {printable(words)}" for number, words in enumerate(consulted_words(asked_of))
        ]
    if view.bundle:
        lines.append(f"  bundle     {printable(view.bundle)}")
    lines += ["", "tasks"]
    for task in run.tasks.values():
        agent = f"  by {printable(task.result.producer.agent_id)}" if task.result else ""
        status = "stopped" if run.ended and task.status in ("RUNNING", "PENDING") else task.status
        lines.append(f"  {task.role:<11} {printable(view.short(task.task_id)):<16} {status}{agent}")
        if words := maker_words(task):
            lines.append(f"              {printable(words)}")
    lines += candidate_lines(view)
    lines += ["", "gates"]
    for gate in view.gates:
        sign = "✔" if gate.verdict == "PASS" else "✘"
        about = f" ({printable(view.short(gate.task_id))})" if gate.task_id else ""
        code = "" if gate.verdict == "PASS" else f"{gate.code}: "
        lines.append(f"  {sign} {gate.gate:<11} {code}{printable(gate.summary)}{about}")
        lines += [f"      {printable(line)}" for line in violation_lines(gate)]
    proofs = proof_lines(run.tests) if run.tests is not None else []
    lines += ["", "tests", *(f"  {printable(line)}" for line in proofs)] if proofs else []
    return [*lines, ""]


def _at_work(task: TaskInHand) -> str:
    since = f", since {moment(task.since).astimezone():%H:%M:%S}" if task.since else ""
    return since + (f", process {printable(task.process)}" if task.process else "")


def asked_words(task: RunTask) -> str:
    """Return the coding agent or model of a worker's task; empty for other makers."""
    executor = task.contract.executor if task.contract is not None and task.role == "worker" else None
    if executor is None or not EXECUTOR_KINDS[executor.kind].asked_anew:
        return ""
    return " ".join(filter(None, (executor.agent, executor.model))) or executor.kind


def maker_words(task: RunTask) -> str:
    """Format the requested maker, and its version and remarks by the worker's own report."""
    asked = asked_words(task)
    if not asked:
        return ""
    summary = " ".join(task.result.summary.split()) if task.result is not None else ""
    words = f"with {asked}" + (f": {summary}" if summary else "")
    return words if len(words) <= _SUMMARY_WIDTH else words[: _SUMMARY_WIDTH - 1] + "…"


def candidate_lines(view: RunView) -> list[str]:
    """Format the candidates of a run as a table, with the reason of the choice; empty for a single change."""
    rows = rows_of(view.run, view.gates)
    if not rows:
        return []
    cells = [HEADINGS, *(tuple(map(printable, cells_of(row))) for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(HEADINGS))]
    lines = ["", "candidates"]
    lines += ["  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    if view.run.chosen:
        lines.append(f"  candidate {view.run.chosen} lands: {why_chosen(standings(view.run))}")
    return lines
