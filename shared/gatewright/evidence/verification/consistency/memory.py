"""16. What the run was told of earlier ones is about its repository and its publisher, and within the bounds of its policy."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import CanonicalMemory, RunRequest, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.progress import repository_digest
from gatewright.evidence.verification.consistency.telling import Contradiction, Telling
from gatewright.evidence.verification.reading import Reading
from gatewright.order_artifacts.canonical_memory import MEMORY, newest
from gatewright.run.state import Run

CODE = "memory_contradicts"
#: The policy file that the bounds come from.
FILE = "memory.json"


def check_memory(telling: Telling, reading: Reading, step: int) -> Iterator[Contradiction]:
    """1. the bounds are there where the policy had any  2. a memory was given only then, and once  3. it is one, about this
    repository and publisher  4. it is within the bounds, in order, and does not tell of this run."""
    accepted = telling.run.accepted
    if (accepted.memory is not None) != (FILE in accepted.policies):  # 1
        yield Contradiction(CODE, layout.EVENTS, layout.META, f"the bounds of {FILE} and its digest are not both there")
    order = accepted.request or accepted.contract
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    digests = {artifact.sha256.lower() for artifact in given if artifact.name == MEMORY}
    if not digests:
        return
    if accepted.memory is None or len(digests) > 1:  # 2
        yield Contradiction(CODE, layout.EVENTS, layout.META, "it was told of earlier runs as no policy says")
        return
    path = layout.artifact(digests.pop())
    data = reading.document(path, step) if path in reading.listed else None
    if data is not None:  # what is withheld is said elsewhere
        for words in _faults(data, telling.run):
            yield Contradiction(CODE, path, layout.EVENTS, words)


def _faults(data: bytes, run: Run) -> Iterator[str]:
    try:
        memory = codec.decode(data, CanonicalMemory)
    except MalformedError as error:
        yield f"it is no canonical memory: {error.message}"  # 3
        return
    bounds = run.accepted.memory
    if memory.repository_sha256 != repository_digest(run.accepted.repository_key):
        yield "it is about another repository"
    if memory.publisher != run.publisher:
        yield f"it tells of runs of {memory.publisher}, and the run is one of {run.publisher}"
    if bounds is not None and (len(memory.entries) > bounds.entries or len(data) > bounds.max_bytes):  # 4
        yield "it is larger than the policy allows"
    if memory.entries != newest(memory.entries, len(memory.entries)):
        yield "its entries are out of order, or one of them stands there twice"
    if any(entry.run_id == run.run_id for entry in memory.entries):
        yield "it tells of the run that it was given to"
