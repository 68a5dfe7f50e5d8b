"""The port to where artifacts are kept, and how documents point at them: ``artifact:sha256:<hex>``, RFC 2397 ``data:`` URIs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import urllib.parse
from typing import Final, Protocol

from gatewright.errors import MalformedError

#: Begins the names of artifacts that commands see as files.
PROVIDED: Final = "provide:"
#: Begins the names of artifacts that are the results of earlier runs, before the run id.
RESULT: Final = "result:"
_STORED = re.compile(r"artifact:sha256:([0-9a-f]{64})")  # noqa: TID251 - linear: of a fixed length


class ArtifactPort(Protocol):
    """Blobs by digest, all that a role sees of the bus."""

    async def put(self, data: bytes) -> str:
        """Store bytes; returns ``artifact:sha256:<hex>``. Raises BusError."""

    async def get(self, uri: str) -> bytes:
        """The bytes of an artifact, digest checked. Raises ArtifactError, BusError."""


def stored_uri(sha256: str) -> str:
    """The URI of a stored artifact."""
    return f"artifact:sha256:{sha256}"


def uri_of(data: bytes) -> str:
    """The URI under which ``data`` is, or would be, stored."""
    return stored_uri(hashlib.sha256(data).hexdigest())


def stored_digest(uri: str) -> str:
    """Return the digest in a stored artifact's URI. Raises MalformedError (code ``bad_artifact_uri``) for any other text."""
    match = _STORED.fullmatch(uri)
    if match is None:
        raise MalformedError(f"{uri[:80]!r} is not artifact:sha256:<hex>", code="bad_artifact_uri")
    return match[1]


def inline_uri(data: bytes, media_type: str = "application/octet-stream") -> str:
    """``data`` as a ``data:`` URI."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def inline_bytes(uri: str) -> bytes | None:
    """The bytes of a ``data:`` URI; None for another kind of URI. Raises MalformedError when it is a broken one."""
    if not uri.startswith("data:"):
        return None
    head, comma, body = uri[5:].partition(",")
    if not comma:
        raise MalformedError("a data: URI needs a comma", code="bad_artifact_uri")
    if not head.endswith(";base64"):
        return urllib.parse.unquote_to_bytes(body)
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise MalformedError(f"a data: URI is not base64: {error}", code="bad_artifact_uri") from error
