"""Artifacts that a role claims to have stored must exist: otherwise the bundle would have a gap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import ArtifactError
from gatewright.rules.reports.artifacts import RULE, broken_by_addresses, broken_by_artifacts
from gatewright.services.gatekeeper.gates.context import GateContext

MAX_ARTIFACTS = 256
MAX_TOTAL_BYTES = 128 * 1024 * 1024


def judge_artifacts(context: GateContext, artifacts: Iterable[Artifact], addresses: Iterable[str] = ()) -> None:
    """Check that each artifact of a role's document exists under one digest, and so does each further URI of its output."""
    context.report.checked(RULE)
    for broken in (*broken_by_artifacts(artifacts), *broken_by_addresses(addresses)):
        context.report.violate(*broken)


async def check_artifacts(context: GateContext, uris: Sequence[str]) -> None:
    """Fetch each artifact and check its digest. Missing, too many or too large artifacts are violations."""
    report = context.report
    wanted = sorted(set(uris))
    if len(wanted) > MAX_ARTIFACTS:
        report.violate("artifact_too_large", "artifacts", f"{len(wanted)} artifacts in one report")
        return
    sizes = await asyncio.gather(*(_size(context, uri) for uri in wanted))
    if sum(sizes) > MAX_TOTAL_BYTES:
        report.violate("artifact_too_large", "artifacts", f"{sum(sizes)} bytes of artifacts in one report")


async def _size(context: GateContext, uri: str) -> int:
    try:
        return len(await context.artifacts.get_artifact(uri))
    except ArtifactError as error:
        context.report.violate(error.reason, "artifacts", error.message)
        return 0
