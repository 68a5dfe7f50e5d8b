"""Checks the citations of a search a second time: each text is derived again from the stored bytes of its source."""

from __future__ import annotations

import hashlib

from gatewright.artifacts import ArtifactPort
from gatewright.contracts import EvidenceBundle, TaskContract
from gatewright.contracts.reports import EvidenceSource, Finding
from gatewright.errors import DeniedError, MalformedError
from gatewright.research.findings import content_name
from gatewright.research.source_text import SourceTexts
from gatewright.rules.reports.citations import NOT_FOUND, broken_citations
from gatewright.tasks.inputs import read_artifact


class CitationReview:
    """Reads sources in a child process with limits: a hostile page must not hold up the reviews beside it."""

    def __init__(self) -> None:
        self._texts = SourceTexts()

    async def findings(self, task: TaskContract, bundle: EvidenceBundle, artifacts: ArtifactPort) -> tuple[Finding, ...]:
        """Return a blocking finding for each source without its text and each quote that does not stand there."""
        texts, found = {}, []
        for source in bundle.sources:
            try:
                texts[source.name] = await self._source_text(task, source, artifacts)
            except (MalformedError, DeniedError) as error:
                found.append(Finding(code=error.reason, message=f"{source.name}: {error.message}", blocking=True))
        # The gatekeeper applies the policy on independent hosts.
        broken = broken_citations(bundle, texts, hosts=1)
        return (*found, *(Finding(code=each.code, message=each.detail, blocking=True) for each in broken))

    async def _source_text(self, task: TaskContract, source: EvidenceSource, artifacts: ArtifactPort) -> str:
        content = await read_artifact(task, content_name(source), artifacts)
        text = await self._texts.read(content, source.media_type or "")
        if hashlib.sha256(text.encode()).hexdigest() != source.text_sha256:
            raise MalformedError("its text is not the text of its bytes", code=NOT_FOUND)
        return text
