"""Whether the artifacts that a document names are ones of the store, each under the digest that its address has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gatewright.artifacts import stored_digest
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.rules.broken import Broken

CODE = "artifact_invalid"
#: How the names of a model's answers begin.
ANSWER: Final = "answer-"
RULE = "artifacts"


def broken_by_artifacts(artifacts: Iterable[Artifact]) -> Iterator[Broken]:
    """An artifact lies in the store, and has one digest."""
    for artifact in artifacts:
        digest = _digest(artifact.uri)
        if digest is None:
            yield Broken(CODE, RULE, f"{artifact.name[:80]}: {artifact.uri[:80]!r} is no artifact of the store")
        elif digest != artifact.sha256.lower():
            yield Broken(CODE, RULE, f"{artifact.name[:80]} has two digests: {artifact.sha256}, and {digest} by its address")


def broken_by_consultation(asked: Consultation | None) -> Iterator[Broken]:
    """What was kept of a question to a model lies in the store; there is one answer for each time that it was asked."""
    if asked is None:
        return
    yield from broken_by_artifacts(asked.artifacts)
    answers = sum(artifact.name.startswith(ANSWER) for artifact in asked.artifacts)
    if asked.asked != max(1, answers):
        yield Broken(CODE, RULE, f"a model was asked {asked.asked} times, and {answers} answers are kept")


def broken_by_addresses(addresses: Iterable[str]) -> Iterator[Broken]:
    """Output that was stored lies in the store; the address of what there was none of is empty."""
    for uri in addresses:
        if uri and _digest(uri) is None:
            yield Broken(CODE, RULE, f"{uri[:80]!r} is no artifact of the store")


def _digest(uri: str) -> str | None:
    try:
        return stored_digest(uri)
    except MalformedError:
        return None
