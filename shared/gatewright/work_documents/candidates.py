"""Candidates of one change as a table: makers, gate results, and the landed one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatewright.contracts import GateReport
from gatewright.contracts.vocabulary import Executor
from gatewright.run.choice import OPEN, PASSED, standings
from gatewright.run.state import Run
from gatewright.worker_role import answers

#: Characters of a command that are shown.
_SHOWN = 60


class CandidateRow(msgspec.Struct, frozen=True):
    """One candidate. ``gates`` are the verdicts on it by gate: ``ok``, or the code of the refusal; the last one of each.

    ``cost_usd`` is None where a maker asked a model without a known price. ``outcome`` is ``passed``, ``open``, or the code of
    what put it out.
    """

    candidate: int
    made_by: str
    gates: dict[str, str]
    findings: int
    changed_lines: int
    cost_usd: float | None
    tokens: int
    outcome: str
    chosen: bool


def rows_of(run: Run, gates: Sequence[GateReport]) -> tuple[CandidateRow, ...]:
    """Every candidate of ``run``, by number; none where there is only one change. ``gates`` are all verdicts, in order."""
    ranked = {standing.candidate: standing for standing in standings(run)}
    verdicts: dict[int, dict[str, str]] = {number: {} for number in ranked}
    for gate in gates:
        task = run.tasks.get(gate.task_id or "")
        if task is not None and task.candidate in verdicts:
            verdicts[task.candidate][gate.gate] = gate.code
    executors = run.contract.candidates or () if run.contract is not None else ()
    return tuple(
        CandidateRow(
            candidate=number,
            made_by=made_by_words(executors[number - 1]) if number <= len(executors) else "",
            gates=verdicts[number],
            findings=standing.findings,
            changed_lines=standing.changed_lines,
            cost_usd=standing.cost_usd,
            tokens=standing.tokens,
            outcome=standing.outcome,
            chosen=number == run.chosen,
        )
        for number, standing in sorted(ranked.items())
    )


def made_by_words(executor: Executor) -> str:
    """``agent codex``, ``model gpt-5.1``, ``command python fix.py``; ``by default`` where the order leaves it open."""
    if executor.kind == "agent":
        return " ".join(filter(None, ("agent", executor.agent or "by default", executor.model)))
    if executor.kind == "model":
        return f"model {executor.model or 'by default'}"
    given = next(iter(answers(executor)), "")
    return f"{executor.kind} {given if len(given) <= _SHOWN else given[: _SHOWN - 3] + '...'}".strip()


def cells_of(row: CandidateRow) -> tuple[str, ...]:
    """The row in words: number, maker, gates, findings, lines, cost, outcome."""
    gates = " ".join(f"{gate} {'✔' if code == 'ok' else '✘'}" for gate, code in row.gates.items())
    money = "unknown price" if row.cost_usd is None else f"{row.cost_usd:g} USD"
    cost = f"{money}, {row.tokens} tokens" if row.tokens or row.cost_usd != 0 else "-"
    outcome = "lands" if row.chosen else "passed, not chosen" if row.outcome == PASSED else row.outcome
    judged = "reviewer" in row.gates
    return (
        str(row.candidate),
        row.made_by,
        gates or "-",
        str(row.findings) if judged else "-",
        str(row.changed_lines) if "integrated" in row.gates else "-",
        cost,
        "under way" if outcome == OPEN else outcome,
    )


HEADINGS = ("#", "made by", "gates", "findings", "lines", "cost", "outcome")
