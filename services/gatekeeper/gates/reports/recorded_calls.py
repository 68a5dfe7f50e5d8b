"""A role's recorded model calls, compared with its approved transfers before its answer is accepted."""

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
    """Apply ``judge_calls`` to the artifacts of a role's consultation; nothing without a consultation."""
    if asked is not None:
        context.report.checked(ARTIFACTS)
        for broken in broken_by_consultation(asked):
            context.report.violate(*broken)
        await judge_calls(context, run, role, asked.artifacts)


async def judge_calls(
    context: GateContext, run: Run, role: str, artifacts: Iterable[Artifact], usage: Usage | None = None
) -> None:
    """Judge the recorded model calls among ``artifacts``. Violation: ``transfer_not_approved``.

    A run that was accepted without ``transfers.json`` is not judged.

    Raises:
        BusError: the artifact store does not answer.
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
