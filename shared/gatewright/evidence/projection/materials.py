"""Fetches the artifacts of a projection. The only part of building a bundle that waits for the bus."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Protocol

from gatewright.errors import ArtifactError
from gatewright.evidence import layout
from gatewright.evidence.projection.file_plan import Content
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.projection import project

#: Number of artifacts fetched at the same time.
PARALLEL = 8
#: Error code of a source that withholds an artifact because no bundle may contain it.
WITHHELD = "secret_found"


class ArtifactSource(Protocol):
    """Artifact store; every Bus is one."""

    async def get_artifact(self, uri: str) -> bytes:
        """Return the bytes of ``artifact:sha256:<hex>``.

        Raises:
            ArtifactError: the store does not have the artifact.
            BusError: the store does not answer.
        """


async def materialize(history: RunHistory, source: ArtifactSource) -> dict[str, bytes]:
    """Return path -> bytes of every file of the bundle except manifest and signatures; deterministic for a run and its store.

    An artifact that a role falsely claimed to have stored is left out and listed in the evidence report. So is one that
    ``source`` withholds (ArtifactError with the code ``secret_found``).

    Raises:
        ArtifactError: one of the gatekeeper's own artifacts is missing.
        BusError: ``source`` does not answer now; seal again later.
    """
    candidate = history.run.candidate
    had = {candidate.names: await _get(candidate.names, source)} if candidate and candidate.names else {}
    names = next(iter(had.values()), b"")
    projection = project(history, names=names)
    blobs, missing = await _gather(projection.artifacts() - had.keys(), source)
    blobs |= had
    if missing:
        if own := sorted(missing.keys() & projection.essential):
            raise ArtifactError(f"{own[0]} is not in the artifact store, and the bundle cannot do without it")
        withheld = frozenset(uri for uri, code in missing.items() if code == WITHHELD)
        projection = project(history, names=names, lost=frozenset(missing) - withheld, withheld=withheld)
    return {path: _join_content(content, blobs) for path, content in projection.files.items()}


def _join_content(content: Content, blobs: dict[str, bytes]) -> bytes:
    return content if isinstance(content, bytes) else b"".join(blobs[uri] for uri in content)


async def _gather(uris: Iterable[str], source: ArtifactSource) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the fetched artifacts, and the error code of each failure."""
    wanted = sorted(uris)
    slots = asyncio.Semaphore(PARALLEL)

    async def get(uri: str) -> bytes | ArtifactError:
        async with slots:
            try:
                return await _get(uri, source)
            except ArtifactError as error:
                return error

    answers = await asyncio.gather(*(get(uri) for uri in wanted), return_exceptions=True)
    found, missing = {}, {}
    for uri, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, ArtifactError):
            missing[uri] = answer.reason
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[uri] = answer
    return found, missing


async def _get(uri: str, source: ArtifactSource) -> bytes:
    """Return the bytes of ``uri`` without screening."""
    data = await source.get_artifact(uri)
    if hashlib.sha256(data).hexdigest() != layout.digest_of(uri):
        raise ArtifactError(f"the store's bytes for {uri} have another digest")
    return data
