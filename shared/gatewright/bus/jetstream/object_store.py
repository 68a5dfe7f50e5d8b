"""Artifacts in a JetStream stream: bytes named by their sha256, stored in pieces by one identity.

Piece ``n`` of an artifact has the subject ``gw.artifact.<writer>.<sha256>.<n>``. A publisher's uploads have the subject
``gw.upload.<publisher>.<sha256>.<n>``, in a stream of their own. The server restricts a writer to its own name and accepts
one message per subject, so stored data is never overwritten. Two identities that store the same bytes have a copy each, so
that neither can corrupt the other's. Every read checks the bytes against their name.

Artifacts that nothing refers to expire by age (``gatewright.app.retention.artifact_expiry``). A role that stores an
artifact again after more than a day records that use, on condition that the artifact still exists. Its age then starts
again.
"""

from __future__ import annotations

import math

from gatewright.artifacts import stored_uri
from gatewright.bus.artifacts import MAX_ARTIFACT_BYTES, check_digest, digest_of
from gatewright.bus.identities import OPERATOR_PUBLISHER, is_publisher, publisher_of
from gatewright.bus.jetstream.api import MISSING, is_stream_full
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import Storage, StoredMessage
from gatewright.bus.topology import ARTIFACTS, artifact_subject, artifact_use_subject, upload_stream, upload_subject
from gatewright.clock import Clock, new_id
from gatewright.errors import ArtifactError, BusError, ConflictError, LimitError

#: Fits into the default limit of a NATS server (1 MiB).
PIECE_BYTES = 512 * 1024
#: Header of the first piece: the size of the whole artifact in bytes.
SIZE_HEADER = "Gw-Artifact-Size"

#: Seconds after which storing an artifact again records a new use.
USE_SECONDS = 86_400.0

_LONGEST_SIZE = len(str(MAX_ARTIFACT_BYTES))


class ArtifactStore:
    """The artifacts of the bus, written under the identity of the connection."""

    def __init__(self, connection: Connection, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._credential = connection.credential
        self._writer = connection.credential.identity if connection.credential else connection.name
        #: The publisher, if this connection is only a publisher: it then uses its own stream, and reads nothing else.
        self._publisher = publisher_of(self._writer) if self._credential and is_publisher(self._writer) else None
        self._stream = upload_stream(self._publisher).name if self._publisher else ARTIFACTS.name

    async def put(self, data: bytes) -> str:
        """Store ``data`` unless this identity already has.

        Returns:
            The URI of the artifact.

        Raises:
            BusError: the bus cannot serve.
            MalformedError: the data is too large.
            LimitError: ``uploads_full``: the publisher's stream is full.
            ArtifactError: ``artifact_damaged``: a process of the same identity stored other bytes under this name.
        """
        digest = digest_of(data)
        while (known := await self._store(digest, data)) is not None:
            if self._publisher is not None or await self._record_use(digest, known):
                break
        return stored_uri(digest)

    async def _store(self, digest: str, data: bytes) -> StoredMessage | None:
        """Store what is not there yet; returns the first piece where that was there before."""
        pieces = max(1, math.ceil(len(data) / PIECE_BYTES))
        # The oldest piece expires first, where uploads are kept for a limited time.
        if pieces > 1:
            known = await self._own(digest, 0)
            if _begins(known, data) and await self._own(digest, pieces - 1) is not None:
                return known
        known = None
        # The first one is written last: once it is there, all are.
        for number in reversed(range(pieces)):
            known = await self._store_piece(digest, number, data)
        return known

    async def _record_use(self, digest: str, first: StoredMessage) -> bool:
        """Record that the artifact is in use; return False if it has just expired and must be stored again."""
        now = self._clock.now().timestamp()
        if first.time is not None and now - first.time.timestamp() < USE_SECONDS:
            return True
        day = int(now // USE_SECONDS)
        subject = artifact_use_subject(self._writer, digest, day)
        if await self._storage.last(self._stream, subject) is not None:
            return True
        try:
            await self._storage.store(
                self._stream,
                subject,
                b"",
                message_id=self._message_id(f"{digest}.used-{day}"),
                expected=first.seq,
                expected_of=self._subject(digest, 0),
            )
        except ConflictError:
            return False
        except BusError:
            # Another process of this identity was quicker: a subject is written once.
            if await self._storage.last(self._stream, subject) is None:
                raise
        return True

    async def get(self, digest: str) -> bytes:
        """Return the bytes with this sha256, whichever role or operator stored them; a publisher reads only its own uploads.

        Raises:
            ArtifactError: no identity stored them (``artifact_missing``), or no stored copy is intact.
            BusError: the bus cannot serve.
        """
        if self._publisher is not None:
            return await self.read_upload(digest, self._publisher)
        spoilt: ArtifactError | None = None
        sequence = 0
        while first := await self._storage.following(ARTIFACTS.name, artifact_subject("*", digest, 0), sequence + 1):
            sequence = first.seq
            try:
                return check_digest(digest, await self._read_pieces(first, digest))
            except ArtifactError as error:
                spoilt = error
        raise spoilt or ArtifactError(f"there is no {stored_uri(digest)}", code="artifact_missing")

    async def read_upload(self, digest: str, publisher: str) -> bytes:
        """Return the bytes with this sha256 as this publisher stored them. Raises the same errors as ``get``.

        Operators store among the roles and can read all artifacts.
        """
        if publisher == OPERATOR_PUBLISHER:
            return await self.get(digest)
        try:
            first = await self._storage.last(upload_stream(publisher).name, upload_subject(publisher, digest, 0))
        except BusError as error:
            if error.reason not in MISSING:
                raise
            first = None
        if first is None:
            raise ArtifactError(f"the publisher {publisher} has uploaded no {stored_uri(digest)}", code="artifact_missing")
        return check_digest(digest, await self._read_pieces(first, digest))

    async def _store_piece(self, digest: str, number: int, data: bytes, *, suffix: str = "") -> StoredMessage | None:
        """Store one piece; returns it where it was there before. ``suffix`` makes its message id another one."""
        subject = self._subject(digest, number)
        piece = data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
        headers = {SIZE_HEADER: str(len(data))} if number == 0 else None
        message_id = self._message_id(f"{digest}.{number}{suffix}")
        try:
            ack = await self._storage.store(self._stream, subject, piece, message_id=message_id, headers=headers, expected=0)
        except BusError as error:
            if self._publisher is None or not is_stream_full(error):
                raise
            raise LimitError(
                f"the upload stream of publisher {self._publisher} is full: {len(data)} more bytes do not fit",
                code="uploads_full",
            ) from error
        except ConflictError as error:
            there = await self._own(digest, number)
            if there is not None and (there.data != piece or (number == 0 and not _begins(there, data))):
                raise ArtifactError(
                    f"other bytes were stored as {stored_uri(digest)} with the credential of {self._writer}",
                    code="artifact_damaged",
                ) from error
        else:
            if not ack.duplicate:
                return None
            there = await self._own(digest, number)
        # The piece may have just expired while the server still remembers its message id.
        return there or await self._store_piece(digest, number, data, suffix=f".{new_id()}")

    def _message_id(self, what: str) -> str:
        plain = f"{self._writer}.{what}"
        return self._credential.private_id(plain) if self._credential is not None else plain

    async def _own(self, digest: str, number: int) -> StoredMessage | None:
        return await self._storage.last(self._stream, self._subject(digest, number))

    def _subject(self, digest: str, number: int) -> str:
        if self._publisher is not None:
            return upload_subject(self._publisher, digest, number)
        return artifact_subject(self._writer, digest, number)

    async def _read_pieces(self, first: StoredMessage, digest: str) -> bytes:
        """Return all pieces of one writer, joined. Raises ArtifactError if they cannot be an artifact."""
        kind, writer = first.subject.split(".")[1:3]
        uploaded = kind == "upload"
        stream = upload_stream(writer).name if uploaded else ARTIFACTS.name
        place = upload_subject if uploaded else artifact_subject
        data = bytearray(first.data)
        for number in range(1, math.ceil(_declared_size(first) / PIECE_BYTES)):
            piece = await self._storage.last(stream, place(writer, digest, number))
            if piece is None or len(piece.data) > PIECE_BYTES:
                break
            data += piece.data
        return bytes(data)


def _begins(first: StoredMessage | None, data: bytes) -> bool:
    """Return whether ``first`` is the first piece of ``data``."""
    return first is not None and first.header(SIZE_HEADER) == str(len(data)) and first.data == data[:PIECE_BYTES]


def _declared_size(first: StoredMessage) -> int:
    text = first.header(SIZE_HEADER)
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_SIZE else -1
    if not 0 <= size <= MAX_ARTIFACT_BYTES:
        raise ArtifactError(f"{first.subject} has no valid artifact size in its header", code="artifact_damaged")
    return size
