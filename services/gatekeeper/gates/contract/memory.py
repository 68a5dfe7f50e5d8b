"""Artifacts about earlier runs: memory, which only the gatekeeper can provide, and results, which it compares."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from gatewright.artifacts import RESULT, stored_digest
from gatewright.contracts import EvidenceBundle, RunRequest, TaskContract, codec
from gatewright.contracts.progress import MemoryEntry
from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.evidence.projection.progress import repository_digest
from gatewright.evidence.store.address import is_run
from gatewright.order_artifacts.canonical_memory import MEMORY, memory_of, without_memory
from gatewright.research.findings import FINDINGS
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.context import GateContext

RULE: Final = "memory"
GIVEN: Final = "memory_given"
RESULTS: Final = "results"
#: Finds a run by its id, or None.
FindRun = Callable[[str], Awaitable[Run | None]]


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


async def judge_results(context: GateContext, document: RunRequest | TaskContract, publisher: str, find: FindRun) -> None:
    """Compare results of earlier runs in an order with what these runs ended with.

    A result of an unknown or expired run, or of another publisher's, is a claim of the publisher and is not compared.
    Violation: ``result_differs``.

    Raises:
        UnavailableError, BusError: the ledger or the artifact store does not answer.
        MalformedError, ArtifactError: the earlier run, or its findings, cannot be read.
    """
    report = context.report
    for artifact in document.artifacts if isinstance(document, RunRequest) else document.inputs.artifacts:
        if not artifact.name.startswith(RESULT):
            continue
        run_id = artifact.name.removeprefix(RESULT)
        run = await find(run_id) if is_run(run_id) else None
        if run is None or run.expired is not None or run.publisher != publisher:
            report.checked(f"{RESULTS}.{run_id[:64]}", "not compared: a claim of the publisher")
            continue
        digest = await _result_digest(context, run)
        report.checked(f"{RESULTS}.{run_id}", digest or "none")
        if artifact.sha256 != digest:
            words = f"{artifact.name} has digest {artifact.sha256}, and the result of the run {digest or 'does not exist'}"
            report.violate("result_differs", f"{RESULTS}.{run_id}", words)


async def _result_digest(context: GateContext, run: Run) -> str:
    """Return the digest of the document that a successful run ended with; empty without one."""
    made = (each for task in run.workers() if task.result is not None for each in task.result.artifacts)
    found = next((each for each in made if each.name == FINDINGS), None) if run.kind.searches else None
    document: Document | None = run.result_document
    if found is not None:
        document = codec.decode(await context.artifacts.get_artifact(found.uri), EvidenceBundle)
    return hashlib.sha256(codec.encode(document)).hexdigest() if document is not None and run.status == "SUCCESS" else ""
