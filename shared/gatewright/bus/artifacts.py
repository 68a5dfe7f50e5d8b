"""Artifacts on the bus: how large one may be, and the check that the bytes are those that the name promises."""

from __future__ import annotations

import hashlib

from gatewright.artifacts import stored_digest, stored_uri
from gatewright.errors import ArtifactError, MalformedError

#: A process that stores or reads an artifact holds the whole artifact in memory.
MAX_ARTIFACT_BYTES = 256 * 1024 * 1024


def digest_of(data: bytes) -> str:
    """The sha256 of ``data`` in lower-case hex; raises MalformedError (code ``artifact_too_large``)."""
    if len(data) > MAX_ARTIFACT_BYTES:
        raise MalformedError(
            f"an artifact holds at most {MAX_ARTIFACT_BYTES} bytes, not {len(data)}", code="artifact_too_large"
        )
    return hashlib.sha256(data).hexdigest()


def digest_in(uri: str) -> str:
    """The digest that an artifact URI names; raises ArtifactError (code ``bad_artifact_uri``)."""
    try:
        return stored_digest(uri)
    except MalformedError as error:
        raise ArtifactError(error.message, code=error.reason) from None


def check_digest(digest: str, data: bytes) -> bytes:
    """Return ``data`` if it has this digest.

    All roles share the store, so its content is checked on every read.

    Raises:
        ArtifactError: ``artifact_digest_mismatch``.
    """
    if hashlib.sha256(data).hexdigest() != digest:
        raise ArtifactError(f"the bytes stored as {stored_uri(digest)} have another digest", code="artifact_digest_mismatch")
    return data
