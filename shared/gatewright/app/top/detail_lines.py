"""One run in a terminal, part by part: state, timeline, change, live agent output. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

from gatewright.app.top.lines import STAGE_WORDS, age_words, line
from gatewright.contracts import AgentActivity, GateReport, OrchestratorEvent
from gatewright.run.states import STATE_NAMES
from gatewright.view.detail import RunDetail
from gatewright.view.needs import Need
from gatewright.view.safe_text import one_line, terminal_text
from gatewright.work_documents.remarks import gate_remarks, remark_line
from gatewright.work_documents.request_summary import summary_facts

PartName = Literal["run", "timeline", "change", "agents"]
PARTS: Final[tuple[PartName, ...]] = ("run", "timeline", "change", "agents")
PART_TITLES: Final[dict[PartName, str]] = {"run": "Run", "timeline": "Timeline", "change": "Change", "agents": "Agents, live"}
#: Lines of the change that are shown, and bytes that are looked at for them.
MOST_PATCH_LINES: Final = 2_000
MOST_PATCH_BYTES: Final = 1_000_000


def standing_lines(detail: RunDetail, needs: Sequence[Need], now: datetime) -> list[str]:
    """Return the state, what to do, whose approval is requested, and every verdict."""
    return [
        line(each) for each in (*_standing_lines(detail, now), *_need_lines(detail.run.run_id, needs), *_verdicts(detail.gates))
    ]


def event_lines(detail: RunDetail) -> list[str]:
    """Return every event, the newest last: time of the day (UTC), role, event, task."""
    return [line(_event(record)) for record in detail.records]


def change_lines(patch: bytes | None, run_id: str) -> list[str]:
    """The canonical patch. ``patch`` None: there is none yet, or this identity may not read it."""
    if patch is None:
        return [
            "No change to show: none was composed yet, or this identity may not read artifacts.",
            f"  gatewright show {run_id}",
        ]
    every = terminal_text(patch[:MOST_PATCH_BYTES]).split("\n")
    shown = [line(each) for each in every[:MOST_PATCH_LINES]]
    if len(every) > MOST_PATCH_LINES or len(patch) > MOST_PATCH_BYTES:
        shown.append(f"… and more, {len(patch)} bytes in all: the bundle has it, `gatewright show {run_id}`")
    return shown


def agent_lines(entries: Sequence[AgentActivity], run_id: str) -> list[str]:
    """Return the agents' output since this board was opened; it is stored nowhere."""
    if not entries:
        return ["No agent of this run has reported anything since this was opened.", f"  gatewright show {run_id} --log"]
    return [line(f"{entry.task_id.removeprefix(f'{run_id}.')}  {entry.event:<11} {one_line(entry.text)}") for entry in entries]


def _event(record: OrchestratorEvent) -> str:
    task = one_line((record.task_id or "").removeprefix(f"{record.run_id}."))
    return f"{record.ts[11:19]}  {record.role or '-':<11} {record.event_type:<20} {task}".rstrip()


def _standing_lines(detail: RunDetail, now: datetime) -> Iterator[str]:
    row = detail.row
    state = f", {STATE_NAMES.get(row.state, row.state)}" if row.is_open else ""
    yield f"{row.run_id}   {STAGE_WORDS[row.stage]}{state}, round {row.attempt}"
    yield f"asked       {one_line(row.title)}"
    yield f"repository  {one_line(row.repository)}"
    yield f"publisher   {one_line(row.publisher)}, {age_words(row.created_at, now)} ago"
    if row.landed_ref:
        yield f"landed      {one_line(row.landed_ref)} at {row.landed_commit}"
    if row.code:
        yield f"failed      {row.code}: {one_line(row.message)}"
    if detail.advice:
        yield f"what to do  {one_line(detail.advice)}"
    for task in row.in_hand:
        yield f"at work     {task.role} ({one_line(task.pool)}) on {one_line(task.task_id)} for {age_words(task.since, now)}"
        if task.process:
            yield f"            as reported by process {one_line(task.process)}"
    for holder in row.holders:
        yield f"waits for   {one_line(holder)}, which holds its paths"


def _need_lines(run_id: str, needs: Sequence[Need]) -> Iterator[str]:
    for need in needs:
        if need.run_id == run_id:
            yield ""
            yield f"needs {one_line(need.who)}: {one_line(need.why)}{f' (risk {need.risk})' if need.risk else ''}"
            if need.summary is not None:
                facts = summary_facts(need.summary)
                yield from (f"  {name:<11} {one_line(value)}" for name, value in facts.items() if name != "why")
            yield f"  otherwise: {one_line(need.on_silence)}{f', {need.until}' if need.until else ''}"
            yield from (f"  $ {command}" for command in need.commands)


def _verdicts(gates: Sequence[GateReport]) -> Iterator[str]:
    if gates:
        yield ""
        yield "Gates"
    for report in gates:
        yield f"  {'passed ' if report.verdict == 'PASS' else 'REFUSED'} {report.gate}"
        for violation in report.violations:
            yield f"            {violation.code}: {one_line(violation.detail)}"
        for remark in gate_remarks(report):
            yield f"    remark  {one_line(remark_line(remark))}"
