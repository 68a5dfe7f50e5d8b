"""What a role says it has stored must be there: a report that names a ghost would leave a bundle with a hole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gatewright.errors import ArtifactError
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder

MAX_ARTIFACTS = 256
MAX_TOTAL_BYTES = 128 * 1024 * 1024


async def check_artifacts(uris: Sequence[str], found: GateReportBuilder, artifacts: ArtifactCache) -> None:
    """Fetch each artifact, digest checked; a missing one, too many or too much is a violation."""
    wanted = sorted(set(uris))
    if len(wanted) > MAX_ARTIFACTS:
        found.violate("artifact_too_large", "artifacts", f"{len(wanted)} artifacts in one report")
        return
    sizes = await asyncio.gather(*(_size(uri, found, artifacts) for uri in wanted))
    if sum(sizes) > MAX_TOTAL_BYTES:
        found.violate("artifact_too_large", "artifacts", f"{sum(sizes)} bytes of artifacts in one report")


async def _size(uri: str, found: GateReportBuilder, artifacts: ArtifactCache) -> int:
    try:
        return len(await artifacts.get_artifact(uri))
    except ArtifactError as error:
        found.violate(error.reason, "artifacts", error.message)
        return 0
