"""Memory of earlier runs on a repository, as an artifact that only the gatekeeper can provide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from gatewright.artifacts import stored_digest
from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.contracts.progress import MemoryEntry
from gatewright.contracts.vocabulary import Artifact
from gatewright.evidence.projection.progress import repository_digest
from gatewright.order_artifacts.canonical_memory import MEMORY, memory_of, without_memory
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import GateContext

RULE: Final = "memory"
GIVEN: Final = "memory_given"


class RunMemories(Protocol):
    """Memory entries of sealed runs, by repository and publisher."""

    async def entries(self, repository_key: str, publisher: str) -> Sequence[MemoryEntry]:
        """Return the entries of one publisher on one repository.

        Raises:
            UnavailableError: the ledger is still being read.
        """

    def note(self, run: Run) -> None:
        """Add a run that this gatekeeper has just sealed."""


def refuse_given_memory(context: GateContext, artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
    """Refuse memory artifacts from outside, which are forgeries. Return the other ``artifacts``."""
    kept = without_memory(artifacts)
    if len(kept) != len(artifacts):
        context.report.violate(GIVEN, RULE, f"an input artifact is called {MEMORY}, which the gatekeeper alone gives")
    return kept


async def give_memory(
    context: GateContext, document: RunRequest | TaskContract, repository_key: str, publisher: str, memories: RunMemories | None
) -> RunRequest | TaskContract:
    """Add the memory of earlier runs to ``document``, stored and named by digest.

    Returns:
        ``document`` unchanged when there is no memory.
    """
    bounds = context.policies.memory
    if bounds is None or memories is None or not context.report.clean or not repository_key:
        return document
    known = await memories.entries(repository_key, publisher)
    memory = memory_of(repository_digest(repository_key), publisher, known, bounds)
    context.report.checked(RULE, f"{len(memory.entries) if memory else 0} earlier run(s) of {len(known)} known")
    if memory is None:
        return document
    uri = await context.artifacts.put_artifact(codec.encode(memory))
    artifact = Artifact(name=MEMORY, uri=uri, sha256=stored_digest(uri))
    context.report.saw(MEMORY, artifact.sha256)
    if isinstance(document, RunRequest):
        return replace(document, artifacts=(*document.artifacts, artifact))
    return replace(document, inputs=replace(document.inputs, artifacts=(*document.inputs.artifacts, artifact)))
