"""Names of artifacts: ``artifact:sha256:<hex>``, and the check that the bytes are those that the name promises."""

from __future__ import annotations

import hashlib
import re

from gatewright.errors import ArtifactError, MalformedError

#: One artifact is held in memory as a whole, by whoever puts or gets it.
MAX_ARTIFACT_BYTES = 256 * 1024 * 1024

_PREFIX = "artifact:sha256:"
_URI = re.compile(rf"{_PREFIX}([0-9a-f]{{64}})\Z")


def digest_of(data: bytes) -> str:
    """The sha256 of ``data`` in lower-case hex; raises MalformedError (code ``artifact_too_large``)."""
    if len(data) > MAX_ARTIFACT_BYTES:
        raise MalformedError(
            f"an artifact holds at most {MAX_ARTIFACT_BYTES} bytes, not {len(data)}", code="artifact_too_large"
        )
    return hashlib.sha256(data).hexdigest()


def uri_of(digest: str) -> str:
    return _PREFIX + digest


def digest_in(uri: str) -> str:
    """The digest that an artifact URI names; raises ArtifactError (code ``bad_artifact_uri``)."""
    found = _URI.match(uri)
    if found is None:
        raise ArtifactError(f"not the URI of an artifact: {uri[:120]!r}", code="bad_artifact_uri")
    return found.group(1)


def checked(digest: str, data: bytes) -> bytes:
    """``data`` when it has this digest; raises ArtifactError (code ``artifact_digest_mismatch``).

    The store is shared by all roles, so what it hands out is not believed.
    """
    if hashlib.sha256(data).hexdigest() != digest:
        raise ArtifactError(f"the bytes stored as {uri_of(digest)} have another digest", code="artifact_digest_mismatch")
    return data
