"""What roles asked models, for people: which model, how often, what it cost, and what of its proposal was not taken. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.budgets import amount_words
from gatewright.contracts.consultation import Clamp, Consultation
from gatewright.run import events as e
from gatewright.run.state import Run

#: Clamps that are named; how many more there are is said.
_MOST = 5
_WIDTH = 120


def consultation_in(payload: e.RunEvent) -> Consultation | None:
    """What the role that an event tells of asked a model; None for an event without."""
    match payload:
        case e.ContractCompiled(contract=contract):
            return contract.consultation
        case e.PlanAccepted(plan=plan):
            return plan.consultation
        case e.ReviewReceived(report=review):
            return review.consultation
        case e.TaskFailed(error=error):
            return error.consultation
        case e.SummonsAnswered(answer=answer):
            return answer.consultation
        case _:
            return None


def consulted_words(asked: Consultation) -> list[str]:
    """``asked fast: 1 answer, 3,300 tokens, 0.0036 USD``, and a line for each thing that was not taken."""
    answers = "1 answer" if asked.asked == 1 else f"{asked.asked} answers"
    tokens = amount_words(asked.tokens, "tokens", least=asked.incomplete)
    cost = amount_words(asked.cost_usd, "USD", least=asked.incomplete or asked.unpriced)
    lines = [f"asked {asked.model}: {answers}, {tokens}, {cost}"]
    lines += [_clamp(clamp) for clamp in asked.clamped[:_MOST]]
    more = len(asked.clamped) - _MOST
    return [*lines, f"... and {more} more not taken"] if more > 0 else lines


def consulting_roles(run: Run) -> Iterator[tuple[str, Consultation]]:
    """The roles of a run that asked models, as it stands."""
    pairs = (
        ("pm", run.contract.consultation if run.contract is not None else None),
        ("techlead", run.plan.consultation if run.plan is not None else None),
        ("reviewer", run.review.consultation if run.review is not None else None),
    )
    return ((role, asked) for role, asked in pairs if asked is not None)


def _clamp(clamp: Clamp) -> str:
    granted = f", {clamp.granted} instead" if clamp.granted else ""
    proposed = " ".join(clamp.proposed.split())
    shown = proposed if len(proposed) <= _WIDTH else f"{proposed[: _WIDTH - 1]}…"
    return f"not taken: {clamp.field} {shown}{granted} ({clamp.reason})"
