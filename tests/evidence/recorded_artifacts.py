"""The artifacts of runs that are written by hand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gatewright.errors import ArtifactError


@dataclass
class Store:
    """Artifacts in a dictionary: the part of a bus that a bundle needs."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def put(self, data: bytes) -> str:
        uri = f"artifact:sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[uri] = data
        return uri

    async def get_artifact(self, uri: str) -> bytes:
        self.asked.append(uri)
        try:
            return self.blobs[uri]
        except KeyError:
            raise ArtifactError(f"{uri} is not there") from None
