"""Choice among several candidates: their results, and the rule of the choice. Pure; uses only the run's events."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.budgets import BILLION
from gatewright.run import events as e
from gatewright.run.candidates import makers
from gatewright.run.spending import usage_of
from gatewright.run.state import Run

#: Outcome of a candidate that passed every gate.
PASSED = "passed"
#: Outcome of an unfinished candidate.
OPEN = "open"
#: Reason code of a run without a passing candidate.
NONE_PASSED = "no_candidate_passed"
#: The rule, as shown to people.
RULE = "fewest findings, fewest changed lines, least cost (US dollars, unknown last, then tokens), lowest number"


def standings(run: Run) -> tuple[e.Standing, ...]:
    """Return the result of each candidate, best first by ``RULE``; failed ones come last, by number."""
    return tuple(sorted((_candidate_standing(run, number) for number in sorted(run.candidates)), key=_rank))


def best(ranked: Sequence[e.Standing]) -> int | None:
    """Return the candidate to land, the first of ``standings``; None when none passed."""
    return ranked[0].candidate if ranked and ranked[0].outcome == PASSED else None


def why_chosen(ranked: Sequence[e.Standing]) -> str:
    """Return as text the advantage of the first of ``standings`` over the second; empty without a choice."""
    passed = [standing for standing in ranked if standing.outcome == PASSED]
    if not passed:
        return ""
    if len(passed) == 1:
        return "the only one that passed every gate"
    first, second = passed[:2]
    facts = (
        ("fewer findings", first.findings, second.findings),
        ("fewer changed lines", first.changed_lines, second.changed_lines),
        ("less cost", first.cost_usd, second.cost_usd),
        ("fewer tokens", first.tokens, second.tokens),
    )
    for words, mine, others in facts:
        if mine is not None and others is None:
            return f"a known cost, which candidate {second.candidate} does not have"
        if mine is not None and others is not None and mine != others:
            return f"{words} than candidate {second.candidate} ({mine:g} and {others:g})"
    return f"equal to candidate {second.candidate} in findings, lines and cost, and numbered before it"


def _candidate_standing(run: Run, number: int) -> e.Standing:
    state = run.candidates[number]
    spent = usage_of(task for task in makers(run) if task.candidate == number)
    return e.Standing(
        candidate=number,
        outcome=state.failure or (PASSED if state.tests_passed else OPEN),
        findings=len(state.review.findings) if state.review is not None else 0,
        changed_lines=state.composed.changed_lines if state.composed is not None else 0,
        cost_usd=None if spent.least else spent.nano_usd / BILLION,
        tokens=spent.tokens,
    )


def _rank(standing: e.Standing) -> tuple[bool, int, int, bool, float, int, int]:
    if standing.outcome != PASSED:
        return True, 0, 0, False, 0.0, 0, standing.candidate
    cost = standing.cost_usd
    facts = standing.findings, standing.changed_lines, cost is None, cost or 0.0, standing.tokens
    return False, *facts, standing.candidate
