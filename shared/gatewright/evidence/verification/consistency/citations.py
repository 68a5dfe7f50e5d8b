"""Findings of a search: the bundle holds each source, and each quote stands in the stored text of its source."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.artifacts import stored_uri
from gatewright.contracts import EvidenceBundle, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import Reading
from gatewright.research.findings import FINDINGS
from gatewright.research.source_text import MOST_BYTES
from gatewright.rules.reports.citations import NOT_FOUND, broken_citations


def check_citations(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check the findings of a successful search.

    1. They are those of its worker, and answer the question of the order.
    2. The rules of the citations gate hold. Only the gatekeeper knows the policy on independent hosts.
    """
    run = replayed.run
    if run.status != "SUCCESS" or run.kind.result != FINDINGS:
        return
    path = layout.EVIDENCE_BUNDLE
    data = reading.document(path, step)
    named = [each.uri for task in run.workers() if task.result for each in task.result.artifacts if each.name == FINDINGS]
    if data is None or [reading.place_of(uri) for uri in named] != [path]:  # 1
        yield Contradiction(NOT_FOUND, path, layout.EVENTS, "the findings are not those of the worker")
        return
    try:
        bundle = codec.decode(data, EvidenceBundle)
    except MalformedError as error:
        yield Contradiction(NOT_FOUND, path, path, error.message)
        return
    if run.contract is None or bundle.query != run.contract.inputs.spec:
        yield Contradiction(NOT_FOUND, path, layout.CONTRACT, "the findings answer another question")
    texts = {}
    for source in bundle.sources:
        place = reading.place_of(stored_uri(source.text_sha256 or ""))
        text = reading.document(place, step, limit=MOST_BYTES) if place is not None else None
        if text is not None:
            texts[source.name] = text.decode("utf-8", "replace")
    for broken in broken_citations(bundle, texts, hosts=1):  # 2
        yield Contradiction(broken.code, path, path, broken.detail)
