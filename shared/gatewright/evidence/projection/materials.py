"""Brings the bytes of artifacts to a projection. The only part of making a bundle that waits for the bus."""

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

#: Artifacts asked for at the same time.
PARALLEL = 8
#: The code with which a source refuses an artifact that no bundle may hold.
WITHHELD = "secret_found"


class ArtifactSource(Protocol):
    """Where artifacts are kept; every Bus is one."""

    async def get_artifact(self, uri: str) -> bytes:
        """The bytes of ``artifact:sha256:<hex>``. Raises ArtifactError when there are none, BusError when it cannot serve."""


async def materialize(history: RunHistory, source: ArtifactSource) -> dict[str, bytes]:
    """Path -> bytes of every file of the bundle but manifest and signature: always the same for the same run and store.

    An artifact that a role only claimed to have stored is left out and named in the evidence report, as is one that ``source``
    withholds (ArtifactError with the code ``secret_found``). Raises ArtifactError when one of the gatekeeper's own is missing,
    and what ``source`` raises when it cannot serve now: seal again later.
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
    return {path: _bytes(content, blobs) for path, content in projection.files.items()}


def _bytes(content: Content, blobs: dict[str, bytes]) -> bytes:
    return content if isinstance(content, bytes) else b"".join(blobs[uri] for uri in content)


async def _gather(uris: Iterable[str], source: ArtifactSource) -> tuple[dict[str, bytes], dict[str, str]]:
    """What could be had, and the code of the error for what could not."""
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
    """The bytes that ``uri`` names, whatever the source thinks of them."""
    data = await source.get_artifact(uri)
    if hashlib.sha256(data).hexdigest() != layout.digest_of(uri):
        raise ArtifactError(f"the store's bytes for {uri} have another digest")
    return data
