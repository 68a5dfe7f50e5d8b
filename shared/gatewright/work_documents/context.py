"""Summary of a run for models and people (CHORUS, ``context.get``): a view of the ledger. Pure.

Each section is a fenced block of data, independent of its author: it gives no orders. Anything hidden from the makers of
changes is left out, because makers read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from gatewright.contracts import ContextRequest, OrchestratorEvent, RunContext
from gatewright.contracts.run_status import ContextSection, ContextSelector
from gatewright.contracts.work_documents import Decision
from gatewright.errors import MalformedError
from gatewright.evidence.projection.decisions import as_markdown, decisions_of, standing
from gatewright.order_artifacts.hidden_acceptance import hidden_tests
from gatewright.prompts.prompt import fence_text
from gatewright.rules import reviewing
from gatewright.rules.approvals import draft_of
from gatewright.rules.summons import brief_of
from gatewright.run.state import Run

Scope = Literal["brief", "full"]
#: Characters of one section.
BOUNDS: Final[dict[Scope, int]] = {"brief": 4_000, "full": 64_000}
_TITLES: Final[dict[ContextSelector, str]] = {
    "summary": "summary of the run",
    "decisions": "decisions of the run",
    "review": "review of the change",
    "diff": "the change",
}
#: Decisions whose reasons may name what hidden commands look at.
_REVEALING = frozenset({"Refused by the tests gate", "Repair", "End"})
_HIDDEN = "omitted: some checks of this run are hidden from makers"


def context_of(run: Run, records: Sequence[OrchestratorEvent], request: ContextRequest, patch: bytes = b"") -> RunContext:
    """Return the requested context.

    ``brief`` has 4,000 characters per section, and the current decisions; ``full`` 64,000, and every decision.

    Args:
        run: the run.
        records: its events.
        request: the requested sections.
        patch: the candidate's patch.

    Raises:
        MalformedError: the ledger has only the end of the run (``run_expired``), or an event has an invalid payload.
    """
    if run.expired is not None:
        words = f"{run.run_id} has expired from the ledger; its bundle has the results: {run.expired.sealed.location}"
        raise MalformedError(words, code="run_expired")
    wanted = dict.fromkeys(request.selectors)
    return RunContext(
        run_id=run.run_id,
        seq=run.seq,
        status=run.status,
        state=run.state,
        attempt=run.attempt,
        sections=tuple(
            _section(each, _selected_text(each, run, records, request.scope, patch), request.scope) for each in wanted
        ),
        tree=run.candidate.tree if run.candidate is not None else None,
    )


def wants_patch(request: ContextRequest) -> bool:
    """Return whether the answer needs the bytes of the change."""
    return "diff" in request.selectors


def _section(selector: ContextSelector, text: str, scope: Scope) -> ContextSection:
    bound = BOUNDS[scope]
    shown = fence_text(_TITLES[selector], text, limit=bound)
    return ContextSection(selector=selector, text=shown, characters=len(text), cut=len(text) > bound)


def _selected_text(
    selector: ContextSelector, run: Run, records: Sequence[OrchestratorEvent], scope: Scope, patch: bytes
) -> str:
    match selector:
        case "summary":
            return brief_of(run)
        case "decisions":
            return "\n".join(_decisions(run, records, scope))
        case "review":
            return "\n".join(_review(run)) or "No votes are asked for."
        case "diff":
            return patch.decode("utf-8", "replace") or "There is no change to show."


def _decisions(run: Run, records: Sequence[OrchestratorEvent], scope: Scope) -> Iterator[str]:
    """Yield one line each, even for multi-line text, so that none can imitate another decision."""
    log = decisions_of(run, records)
    kept = standing(log) if scope == "brief" else log.decisions
    if run.contract is not None and hidden_tests(run.contract.acceptance_tests):
        kept = tuple(_without_hidden(each) for each in kept)
    yield from (" ".join(line.split()) for line in as_markdown(replace(log, decisions=kept)))


def _without_hidden(decision: Decision) -> Decision:
    return replace(decision, rationale=_HIDDEN) if decision.title in _REVEALING else decision


def _review(run: Run) -> Iterator[str]:
    """Every review that was asked for, the oldest first: its phase, the votes that count, and what is wanting."""
    for asked in run.approvals.values():
        found = reviewing.standing(run, asked)
        if found is None:
            continue
        yield f"{asked.request.request_id}: {found.phase}, tree {asked.request.candidate_tree}"
        for each in found.votes:
            text = f"{each.vote.rationale} [{', '.join(each.vote.evidence)}]" if each.vote is not None else "its report passed"
            yield " ".join(f"- {each.colour} {each.voter}: {text}".split())
            for promised in each.vote.mitigations if each.vote is not None else ():
                yield " ".join(f"  mitigation: {promised.action} ({promised.owner}, {promised.due})".split())
        yield from (f"- wanting: {' '.join(each.split())}" for each in found.blockers)
    if (draft := draft_of(run)) is not None:
        yield f"{run.run_id}: {draft.phase}"
        yield from (f"- wanting: {each}" for each in draft.blockers)
