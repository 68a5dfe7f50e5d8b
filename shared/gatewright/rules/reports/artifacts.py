"""Artifacts named in a document: each must be in the store, under the digest in its URI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gatewright.artifacts import stored_digest
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import MalformedError
from gatewright.rules.broken import Broken

CODE = "artifact_invalid"
#: Prefix of the names of a model's answers.
ANSWER: Final = "answer-"
RULE = "artifacts"


def broken_by_artifacts(artifacts: Iterable[Artifact]) -> Iterator[Broken]:
    """Yield artifacts that are not in the store or have several digests."""
    for artifact in artifacts:
        digest = _parse_digest(artifact.uri)
        if digest is None:
            yield Broken(CODE, RULE, f"{artifact.name[:80]}: {artifact.uri[:80]!r} is no artifact of the store")
        elif digest != artifact.sha256.lower():
            yield Broken(CODE, RULE, f"{artifact.name[:80]} has two digests: {artifact.sha256}, and {digest} by its address")


def broken_by_consultation(asked: Consultation | None) -> Iterator[Broken]:
    """Yield faults of a consultation: parts outside the store, or a wrong number of answers."""
    if asked is None:
        return
    yield from broken_by_artifacts(asked.artifacts)
    answers = sum(artifact.name.startswith(ANSWER) for artifact in asked.artifacts)
    if asked.asked != max(1, answers):
        yield Broken(CODE, RULE, f"a model was asked {asked.asked} times, and {answers} answers are kept")


def broken_by_addresses(addresses: Iterable[str]) -> Iterator[Broken]:
    """Yield URIs of outputs that are not in the store; the URI of no output is empty."""
    for uri in addresses:
        if uri and _parse_digest(uri) is None:
            yield Broken(CODE, RULE, f"{uri[:80]!r} is no artifact of the store")


def _parse_digest(uri: str) -> str | None:
    try:
        return stored_digest(uri)
    except MalformedError:
        return None
