"""Artifacts in a JetStream stream: the bytes with a sha256, as one identity wrote them, in pieces.

Piece ``n`` of an artifact lies under ``gw.artifact.<writer>.<sha256>.<n>``. What a publisher uploads lies under
``gw.upload.<publisher>.<sha256>.<n>``, in a stream of its own. The server holds a writer to its own name and takes one message
per subject: what was written is never written over. Two identities that store the same bytes have a copy each, so that neither
can spoil the other's. What is read is checked against its name.

Artifacts that nothing refers to expire by age (``gatewright.app.retention.artifact_expiry``). So a role that stores once more
what it had stored more than a day ago says so, on condition that the artifact is still there: its age begins anew.
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
#: On the first piece: the size of the whole, in bytes.
SIZE_HEADER = "Gw-Artifact-Size"

#: Seconds after which storing once more is said anew.
USE_SECONDS = 86_400.0

_LONGEST_SIZE = len(str(MAX_ARTIFACT_BYTES))


class ArtifactStore:
    """The artifacts of the bus, written under the identity of the connection."""

    def __init__(self, connection: Connection, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._credential = connection.credential
        self._writer = connection.credential.identity if connection.credential else connection.name
        #: The publisher that this connection is, and nothing more: it stores in its own stream, and reads that alone.
        self._publisher = publisher_of(self._writer) if self._credential and is_publisher(self._writer) else None
        self._stream = upload_stream(self._publisher).name if self._publisher else ARTIFACTS.name

    async def put(self, data: bytes) -> str:
        """Store ``data`` unless this identity has; returns its URI.

        Raises BusError, MalformedError when it is too large, LimitError (``uploads_full``) when a publisher's stream has no
        room for it, ArtifactError (``artifact_damaged``) when a process of the same identity has written other bytes under
        this name.
        """
        digest = digest_of(data)
        while (known := await self._store(digest, data)) is not None:
            if self._publisher is not None or await self._say_used(digest, known):
                break
        return stored_uri(digest)

    async def _store(self, digest: str, data: bytes) -> StoredMessage | None:
        """Store what is not there yet; returns the first piece where that was there before."""
        pieces = max(1, math.ceil(len(data) / PIECE_BYTES))
        # What was written first goes first, where uploads are kept for a time only.
        if pieces > 1:
            known = await self._own(digest, 0)
            if _begins(known, data) and await self._own(digest, pieces - 1) is not None:
                return known
        known = None
        # The first one is written last: once it is there, all are.
        for number in reversed(range(pieces)):
            known = await self._write(digest, number, data)
        return known

    async def _say_used(self, digest: str, first: StoredMessage) -> bool:
        """Whether the artifact is sure to stay for a while; False when it has just gone, and has to be stored again."""
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
        """The bytes with this sha256, whichever role or operator wrote them; a publisher is given its own.

        Raises ArtifactError when no identity has (``artifact_missing``) or none has written the right ones, BusError.
        """
        if self._publisher is not None:
            return await self.uploaded(digest, self._publisher)
        spoilt: ArtifactError | None = None
        sequence = 0
        while first := await self._storage.following(ARTIFACTS.name, artifact_subject("*", digest, 0), sequence + 1):
            sequence = first.seq
            try:
                return check_digest(digest, await self._read(first, digest))
            except ArtifactError as error:
                spoilt = error
        raise spoilt or ArtifactError(f"there is no {stored_uri(digest)}", code="artifact_missing")

    async def uploaded(self, digest: str, publisher: str) -> bytes:
        """The bytes with this sha256 as this publisher stored them. Raises as ``get`` does.

        Operators store among the roles, and see what is there.
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
        return check_digest(digest, await self._read(first, digest))

    async def _write(self, digest: str, number: int, data: bytes, *, suffix: str = "") -> StoredMessage | None:
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
                f"what the publisher {self._publisher} has uploaded leaves no room for {len(data)} bytes more",
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
        # It may just have expired, while the server still knows the id that it had.
        return there or await self._write(digest, number, data, suffix=f".{new_id()}")

    def _message_id(self, what: str) -> str:
        plain = f"{self._writer}.{what}"
        return self._credential.private_id(plain) if self._credential is not None else plain

    async def _own(self, digest: str, number: int) -> StoredMessage | None:
        return await self._storage.last(self._stream, self._subject(digest, number))

    def _subject(self, digest: str, number: int) -> str:
        if self._publisher is not None:
            return upload_subject(self._publisher, digest, number)
        return artifact_subject(self._writer, digest, number)

    async def _read(self, first: StoredMessage, digest: str) -> bytes:
        """All pieces of one writer. Raises ArtifactError when they cannot be an artifact."""
        kind, writer = first.subject.split(".")[1:3]
        uploaded = kind == "upload"
        stream = upload_stream(writer).name if uploaded else ARTIFACTS.name
        place = upload_subject if uploaded else artifact_subject
        data = bytearray(first.data)
        for number in range(1, math.ceil(_size(first) / PIECE_BYTES)):
            piece = await self._storage.last(stream, place(writer, digest, number))
            if piece is None or len(piece.data) > PIECE_BYTES:
                break
            data += piece.data
        return bytes(data)


def _begins(first: StoredMessage | None, data: bytes) -> bool:
    """Whether ``first`` is the first piece of ``data``."""
    return first is not None and first.header(SIZE_HEADER) == str(len(data)) and first.data == data[:PIECE_BYTES]


def _size(first: StoredMessage) -> int:
    text = first.header(SIZE_HEADER)
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_SIZE else -1
    if not 0 <= size <= MAX_ARTIFACT_BYTES:
        raise ArtifactError(f"{first.subject} does not say how large the artifact is", code="artifact_damaged")
    return size
