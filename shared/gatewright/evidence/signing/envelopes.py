"""Signatures over statements: DSSE envelopes by securesystemslib, so that other tools can verify them with it.

An envelope has exactly one encoding here: canonical JSON, canonical base64, one signature with the signer's key id. Another
encoding of the same signature is refused, so that no byte of the file can change unnoticed. The payload is not interpreted here
(``statement.py``, ``verify.py``).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence.signing.keys import PrivateKey, PublicKey
from gatewright.evidence.statement import PAYLOAD_TYPE
from gatewright.foreign_documents import UnreadableDocumentError, read_json


class Signer:
    """Signer of the gatekeeper's statements. One per process; thread-safe."""

    def __init__(self, key: PrivateKey) -> None:
        # Imported when a signer is created, at the start of the gatekeeper, and not at its first seal.
        from securesystemslib.signer import CryptoSigner

        self.key_id = key.public.key_id
        self.public = key.public
        self._signer = CryptoSigner(key.secret, key.public.library_key())

    def current(self, finished_at: str = "") -> Signer:  # noqa: ARG002 - one whose key is replaced looks at it
        """Return the signer for a run that ended then: this one, unless its key has been replaced."""
        return self

    def envelope(self, payload: bytes) -> bytes:
        """Return the DSSE envelope around ``payload``; deterministic for payload and key (ed25519)."""
        from securesystemslib.dsse import Envelope

        envelope = Envelope(payload, PAYLOAD_TYPE, {})
        envelope.sign(self._signer)
        return msgspec.json.encode(envelope.to_dict(), order="sorted")


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: tuple[_Signature, ...]


def payload_of(envelope: bytes) -> bytes:
    """Return the unverified payload of an envelope, to report what it claims.

    Raises:
        MalformedError: it is no envelope (``bad_envelope``).
    """
    return _unbase64(_parse(envelope).payload)


def open_envelope(envelope: bytes, trusted: Sequence[PublicKey]) -> tuple[bytes, PublicKey]:
    """Return the payload of ``envelope`` and the trusted key that signed it.

    1. The envelope has the canonical encoding.
    2. Its key is trusted.
    3. The signature verifies over the payload and its type.

    Raises:
        MalformedError: ``bad_envelope``.
        VerificationError: ``no_trusted_key``, ``untrusted_key``, ``bad_signature``.
    """
    parsed = _parse(envelope)  # 1
    payload = _unbase64(parsed.payload)
    if not trusted:
        raise VerificationError("no key is trusted, so no signer vouches for the bundle", code="no_trusted_key")
    (signature,) = parsed.signatures
    key = next((key for key in trusted if key.key_id == signature.keyid), None)  # 2
    if key is None:
        raise VerificationError(f"signed by {signature.keyid[:64]!r}, which is not trusted", code="untrusted_key")
    _check_envelope(parsed, key)  # 3
    return payload, key


def _check_envelope(parsed: _Envelope, key: PublicKey) -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError as LibraryVerificationError

    envelope = Envelope.from_dict(msgspec.to_builtins(parsed, builtin_types=(bytes,)))
    try:
        envelope.verify([key.library_key()], 1)
    except LibraryVerificationError as error:
        raise VerificationError("the signature does not belong to these bytes", code="bad_signature") from error


def _parse(data: bytes) -> _Envelope:
    try:
        parsed = read_json(data, _Envelope)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not a DSSE envelope: {error}", code="bad_envelope") from error
    if parsed.payload_type != PAYLOAD_TYPE:
        raise MalformedError(f"the payload is not {PAYLOAD_TYPE}", code="bad_envelope")
    if len(parsed.signatures) != 1:
        raise MalformedError("there must be exactly one signature", code="bad_envelope")
    for text in (parsed.payload, parsed.signatures[0].sig):
        _unbase64(text)
    if msgspec.json.encode(parsed, order="sorted") != data:
        raise MalformedError("not in canonical form", code="bad_envelope")
    return parsed


def _unbase64(text: str) -> bytes:
    """Decode canonical base64 only: unused bits of the last digit could hide a change."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise MalformedError("not base64", code="bad_envelope") from error
    if base64.b64encode(data).decode() != text:
        raise MalformedError("not canonical base64", code="bad_envelope")
    return data
