"""Takes the findings of an outside researcher: an evidence bundle as an input artifact, about documents of the contract.

They are kept as they were given. The citations gate judges them like those of a model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from gatewright.contracts import EvidenceBundle, codec
from gatewright.errors import MalformedError
from gatewright.research.documents import as_fetched, given_documents
from gatewright.research.findings import FINDINGS, content_name, text_name
from gatewright.research.source_text import SourceTexts
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.port import ExecutionFailure, ExecutionResult, Job
from gatewright.services.worker.executors.research.desk import ReadSource
from gatewright.tasks.inputs import read_artifact


class GivenFindings:
    """Carries out SEARCH tasks whose contract gives the findings (executor ``reply``)."""

    def __init__(self, scanner: SecretScanner) -> None:
        self._scanner = scanner

    async def execute(self, job: Job) -> ExecutionResult:
        """Return the findings with the sources among the documents. Raises MalformedError for another document."""
        data = await read_artifact(job.contract, job.answer, job.artifacts)
        bundle = codec.decode(data, EvidenceBundle)
        given = given_documents(job.contract.inputs.artifacts)
        contents = {each.name: await read_artifact(job.contract, each.name, job.artifacts) for each in given}
        texts, read = SourceTexts(), []
        for source in bundle.sources:
            content = contents.get(source.uri)
            if content is None or hashlib.sha256(content).hexdigest() != source.sha256:
                raise MalformedError(f"source {source.name[:80]} is no document of the contract", code="citation_not_found")
            fetched = as_fetched(source.uri, content, bundle.created_at)
            read.append(ReadSource(source.name, fetched, await texts.read(content, fetched.media_type)))
        return keep_findings(data, bundle, read, self._scanner)


def keep_findings(
    data: bytes, bundle: EvidenceBundle, sources: Iterable[ReadSource], scanner: SecretScanner
) -> ExecutionResult:
    """Return the result of a task with these findings; ``data``: the bundle as it is kept."""
    kept = {FINDINGS: data}
    for each in sources:
        kept[content_name(each.record)] = each.fetched.content
        kept[text_name(each.record)] = each.text.encode()
    for name, content in kept.items():
        if hits := scanner.find(content):
            words = f"{name} holds what looks like a secret ({hits[0].rule})"
            return ExecutionResult(failure=ExecutionFailure("secret_found", words))
    words = f"{len(bundle.claims)} claims from {len(bundle.sources)} sources"
    return ExecutionResult(logs=kept, summary=words)
