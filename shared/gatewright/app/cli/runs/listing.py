"""Runs in a list and one run in detail, for programs and for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gatewright.app.cli.runs.result import FailureResult, RunResult, closing_words, failure_of, result_of
from gatewright.app.cli.runs.waits import Wait, wait_lines
from gatewright.app.feed.claims import ToldClaims
from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import GateReport
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.choice import standings, why_chosen
from gatewright.run.state import RunTask
from gatewright.run.states import stage_name
from gatewright.view.budgets import BudgetEntry, budget_entry, budget_words
from gatewright.view.rows import TaskInHand, tasks_in_hand
from gatewright.view.run_view import RunView, moment, seconds_between
from gatewright.view.safe_text import printable
from gatewright.view.sentences import consulted_words, consulting_roles, violation_lines
from gatewright.work_documents.candidates import HEADINGS, CandidateRow, cells_of, rows_of

#: How much of a request is shown in a list.
_REQUEST_WIDTH = 60
#: How much of what an agent says of its work is shown beside it.
_SUMMARY_WIDTH = 100


class RunEntry(msgspec.Struct, frozen=True):
    """One entry of ``runs --json``. ``silent_since``: from when on claims of what is in hand are missing.

    ``in_hand``: the tasks that were given out and not answered: since when, and which process claims each, as on the board.
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


class TaskEntry(msgspec.Struct, frozen=True):
    """``agent`` is who did it, as far as the task's own result says; ``asked`` is the coding agent or model, if one was."""

    task_id: str
    role: str
    status: str
    attempt: int
    agent: str | None
    asked: str | None = None
    #: The pool whose processes do it.
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


def run_entry(view: RunView, claims: ToldClaims | None = None) -> RunEntry:
    """``claims``: what was heard of the tasks of this run, among others."""
    run, heard = view.run, claims or ToldClaims()
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
    )


def run_details(
    view: RunView, now: datetime | None = None, waits: Sequence[Wait] = (), claims: ToldClaims | None = None
) -> RunDetails:
    """One run for programs. ``now`` is when it is looked at, by default its last event; ``claims`` as in ``run_entry``."""
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
    return RunDetails(run, result_of(view), baseline, budget, tasks, view.gates, tuple(waits), rows_of(view.run, view.gates))


def run_table(entries: Sequence[RunEntry]) -> list[str]:
    """The list for people."""
    if not entries:
        return ["no runs yet; start one with `gatewright run`"]
    states = [printable(_state_words(entry)) for entry in entries]
    width = max(map(len, (*states, "STATE")))
    lines = [f"{'RUN':<25} {'STATUS':<8} {'STATE':<{width}} {'STARTED':<19} {'TOOK':>8}  REQUEST"]
    for entry, state in zip(entries, states, strict=True):
        took = f"{entry.duration_sec:.1f} s" if entry.duration_sec is not None else "-"
        started = moment(entry.created_at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        words = printable(" ".join(entry.request.split()))
        shown = words if len(words) <= _REQUEST_WIDTH else words[: _REQUEST_WIDTH - 1] + "…"
        lines.append(f"{entry.run_id:<25} {entry.status:<8} {state:<{width}} {started:<19} {took:>8}  {shown}")
    return lines


def _state_words(entry: RunEntry) -> str:
    """The reason of a failure, else the state, and from when on nothing has been heard of what is in hand."""
    words = entry.failure.code if entry.failure else stage_name(entry.state)
    return words if entry.silent_since is None else f"{words}, silent since {moment(entry.silent_since).astimezone():%H:%M:%S}"


def run_story(
    view: RunView, now: datetime | None = None, waits: Sequence[Wait] = (), claims: ToldClaims | None = None
) -> list[str]:
    """One run for people: what was asked, the tasks, the gates, and the closing words. Arguments as of ``run_details``."""
    run = view.run
    lines = [
        f"{run.run_id}   {run.status}   {stage_name(run.state)}",
        f"  request    {printable(' '.join(run.accepted.user_request.split()))}",
        f"  repository {printable(run.accepted.repository_url)} at {run.accepted.baseline_commit or 'no commit'}",
    ]
    asked = printable(" ".join(run.accepted.requested_by.split()))
    lines.append(f"  publisher  {printable(run.publisher)}" + (f" (says: asked by {asked})" if asked else ""))
    if run.contract is not None:
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
    lines += [f"  {words}" for words in wait_lines(waits)]
    lines += ["", "tasks"]
    at_work = {task.task_id: _at_work(task) for task in run_entry(view, claims).in_hand}
    for task in run.tasks.values():
        agent = f"  by {printable(task.result.producer.agent_id)}" if task.result else at_work.get(task.task_id, "")
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
    return [*lines, "", *closing_words(view)]


def _at_work(task: TaskInHand) -> str:
    since = f"  since {moment(task.since).astimezone():%H:%M:%S}" if task.since else ""
    return since + (f", says process {printable(task.process)}" if task.process else "")


def asked_words(task: RunTask) -> str:
    """Which coding agent or model a worker's task asks for; empty where the change is made in another way."""
    executor = task.contract.executor if task.contract is not None and task.role == "worker" else None
    if executor is None or not EXECUTOR_KINDS[executor.kind].asked_anew:
        return ""
    return " ".join(filter(None, (executor.agent, executor.model))) or executor.kind


def maker_words(task: RunTask) -> str:
    """What was asked for the change, and what its worker says of that: with which version, and in whose words."""
    asked = asked_words(task)
    if not asked:
        return ""
    said = " ".join(task.result.summary.split()) if task.result is not None else ""
    words = f"with {asked}" + (f": {said}" if said else "")
    return words if len(words) <= _SUMMARY_WIDTH else words[: _SUMMARY_WIDTH - 1] + "…"


def candidate_lines(view: RunView) -> list[str]:
    """The candidates of a run as a table, with the reason of the choice; nothing where there is only one change."""
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
