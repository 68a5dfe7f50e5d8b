"""16. The memory of earlier runs is about its repository and its publisher, and within the bounds of its policy.

The findings of a search quote stored text of sources that the bundle holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.artifacts import stored_uri
from gatewright.contracts import CanonicalMemory, EvidenceBundle, RunRequest, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.progress import repository_digest
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import Reading
from gatewright.order_artifacts.canonical_memory import MEMORY, newest
from gatewright.research.findings import FINDINGS
from gatewright.research.source_text import MOST_BYTES
from gatewright.rules.reports.citations import NOT_FOUND, broken_citations
from gatewright.run.state import Run

CODE = "memory_contradicts"
#: Policy file of the bounds.
FILE = "memory.json"


def check_memory(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check memory.

    1. Bounds exist exactly when the policy has them.
    2. Memory was provided only then, and once.
    3. It is valid, about this repository and publisher.
    4. It is within the bounds, in order, and does not include this run.
    """
    accepted = replayed.run.accepted
    if (accepted.memory is not None) != (FILE in accepted.policies):  # 1
        yield Contradiction(CODE, layout.EVENTS, layout.META, f"the bounds of {FILE} and its digest are not both there")
    order = accepted.request or accepted.contract
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    digests = {artifact.sha256.lower() for artifact in given if artifact.name == MEMORY}
    if not digests:
        return
    if accepted.memory is None or len(digests) > 1:  # 2
        yield Contradiction(CODE, layout.EVENTS, layout.META, "it received memory of earlier runs without a policy")
        return
    path = layout.artifact(digests.pop())
    data = reading.document(path, step) if path in reading.listed else None
    if data is not None:  # another check reports withheld artifacts
        for words in _memory_faults(data, replayed.run):
            yield Contradiction(CODE, path, layout.EVENTS, words)


def _memory_faults(data: bytes, run: Run) -> Iterator[str]:
    try:
        memory = codec.decode(data, CanonicalMemory)
    except MalformedError as error:
        yield f"it is no canonical memory: {error.message}"  # 3
        return
    bounds = run.accepted.memory
    if memory.repository_sha256 != repository_digest(run.accepted.repository_key):
        yield "it is about another repository"
    if memory.publisher != run.publisher:
        yield f"it contains runs of {memory.publisher}, but the run belongs to {run.publisher}"
    if bounds is not None and (len(memory.entries) > bounds.entries or len(data) > bounds.max_bytes):  # 4
        yield "it is larger than the policy allows"
    if memory.entries != newest(memory.entries, len(memory.entries)):
        yield "its entries are out of order, or one of them stands there twice"
    if any(entry.run_id == run.run_id for entry in memory.entries):
        yield "it contains the run that received it"


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
