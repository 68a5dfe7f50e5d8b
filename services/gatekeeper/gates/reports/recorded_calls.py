"""What a role's records say of its model calls, held against what it was given leave to send, before its answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.errors import ArtifactError
from gatewright.models.recorded_transfers import RULE, broken_by_calls, records_in
from gatewright.models.transfers import NOT_APPROVED
from gatewright.rules.reports.artifacts import RULE as ARTIFACTS
from gatewright.rules.reports.artifacts import broken_by_consultation
from gatewright.rules.transfers import FILE, leave_for
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import GateContext


async def judge_consultation(context: GateContext, run: Run, role: str, asked: Consultation | None) -> None:
    """The same of what a role asked a model, and the artifacts of that; nothing where it asked none."""
    if asked is not None:
        context.report.checked(ARTIFACTS)
        for broken in broken_by_consultation(asked):
            context.report.violate(*broken)
        await judge_calls(context, run, role, asked.artifacts)


async def judge_calls(
    context: GateContext, run: Run, role: str, artifacts: Iterable[Artifact], usage: Usage | None = None
) -> None:
    """Violation: ``transfer_not_approved``. Nothing is asked of a run that was accepted without ``transfers.json``.

    Raises BusError.
    """
    if FILE not in run.accepted.policies:
        return
    report, records = context.report, None
    report.checked(RULE)
    if (kept := records_in(artifacts)) is not None:
        report.saw(kept.name, kept.sha256)
        try:
            records = await context.artifacts.get_artifact(kept.uri)
        except ArtifactError as error:
            report.violate(error.reason, RULE, error.message)
            return
    for words in await asyncio.to_thread(broken_by_calls, role, leave_for(run, role), records, usage):
        report.violate(NOT_APPROVED, RULE, words)
