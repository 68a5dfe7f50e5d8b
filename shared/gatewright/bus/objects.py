"""Artifacts in a JetStream object store, in the layout that ``nats object`` reads: chunks under a random token, then one
description under the name. The name of an object is the sha256 of its bytes, so an object never changes, and putting it
a second time is a look-up. Whoever holds a credential may write here: what is read is checked against its name.
"""

from __future__ import annotations

import base64
import re

import msgspec

from gatewright.artifacts import stored_uri
from gatewright.bus.artifacts import MAX_ARTIFACT_BYTES, checked, digest_of
from gatewright.bus.connection import Connection
from gatewright.bus.storage import Storage, StoredMessage
from gatewright.bus.topology import ARTIFACT_BUCKET, ARTIFACT_STREAM
from gatewright.errors import ArtifactError, ConflictError

#: Fits into the default limit of a NATS server (1 MiB).
CHUNK_BYTES = 512 * 1024

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_ROLLUP = {"Nats-Rollup": "sub"}


class _Options(msgspec.Struct):
    max_chunk_size: int = CHUNK_BYTES


class _Description(msgspec.Struct, kw_only=True):
    """The object-store's record of one object (NATS ADR-20)."""

    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    digest: str
    mtime: str = "0001-01-01T00:00:00Z"  # readers take the time of the message
    options: _Options = msgspec.field(default_factory=_Options)
    deleted: bool = False


class ObjectStore:
    """The bucket of artifacts."""

    def __init__(self, connection: Connection, storage: Storage) -> None:
        self._connection = connection
        self._storage = storage

    async def put(self, data: bytes) -> str:
        """Store ``data`` unless it is there; returns its URI. Raises BusError, MalformedError when it is too large."""
        digest = digest_of(data)
        try:
            await self._upload(digest, data, 0)
        except ConflictError:
            stored = await self._storage.last(ARTIFACT_STREAM, _description_subject(digest))
            if not _describes(stored, digest, len(data)):
                await self._replace(digest, data, stored.seq if stored else 0)
        return stored_uri(digest)

    async def get(self, digest: str) -> bytes:
        """The bytes with this sha256. Raises ArtifactError when they are missing or others, BusError."""
        found = _read(await self._storage.last(ARTIFACT_STREAM, _description_subject(digest)))
        if found is None:
            raise ArtifactError(f"there is no {stored_uri(digest)}", code="artifact_missing")
        if not 0 <= found.size <= MAX_ARTIFACT_BYTES or not _TOKEN.match(found.nuid):
            raise ArtifactError(f"the description of {stored_uri(digest)} cannot be right", code="artifact_damaged")
        data = bytearray()
        sequence = 0
        for _ in range(found.chunks):
            chunk = await self._storage.following(ARTIFACT_STREAM, _chunk_subject(found.nuid), sequence + 1)
            if chunk is None or len(data) + len(chunk.data) > found.size:
                break
            data += chunk.data
            sequence = chunk.seq
        return checked(digest, bytes(data))

    async def _replace(self, digest: str, data: bytes, expected: int) -> None:
        """Put the bytes in the place of an object that was deleted, or that somebody forged."""
        try:
            await self._upload(digest, data, expected)
        except ConflictError as error:
            raise ArtifactError(f"{stored_uri(digest)} is being written by somebody else", code="artifact_contended") from error

    async def _upload(self, digest: str, data: bytes, expected: int) -> None:
        """Store chunks and description if the description's last sequence is ``expected``; raises ConflictError if not.

        The first chunk already asks for it, so an artifact that is there costs no second copy. In a race of two the loser's
        chunks stay behind: no role may purge the bucket.
        """
        token = self._connection.unique()
        description_subject = _description_subject(digest)
        pieces = range(0, len(data), CHUNK_BYTES)
        for number, start in enumerate(pieces):
            await self._storage.store(
                ARTIFACT_STREAM,
                _chunk_subject(token),
                data[start : start + CHUNK_BYTES],
                message_id=f"{token}.{number}",
                expected=expected if number == 0 else None,
                expected_of=description_subject if number == 0 else None,
            )
        description = _Description(
            name=digest,
            bucket=ARTIFACT_BUCKET,
            nuid=token,
            size=len(data),
            chunks=len(pieces),
            digest=_digest_text(digest),
        )
        await self._storage.store(
            ARTIFACT_STREAM,
            description_subject,
            msgspec.json.encode(description),
            message_id=f"{token}.description",
            headers=_ROLLUP,
            expected=expected,
        )


def _read(stored: StoredMessage | None) -> _Description | None:
    """The description of an object that is there; None when there is none, a deleted one, or nonsense."""
    if stored is None:
        return None
    try:
        description = msgspec.json.decode(stored.data, type=_Description)
    except msgspec.MsgspecError:
        return None
    return None if description.deleted else description


def _describes(stored: StoredMessage | None, digest: str, size: int) -> bool:
    found = _read(stored)
    return found is not None and found.digest == _digest_text(digest) and found.size == size


def _digest_text(digest: str) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(bytes.fromhex(digest)).decode()


def _description_subject(digest: str) -> str:
    return f"$O.{ARTIFACT_BUCKET}.M.{base64.urlsafe_b64encode(digest.encode()).decode()}"


def _chunk_subject(token: str) -> str:
    return f"$O.{ARTIFACT_BUCKET}.C.{token}"
