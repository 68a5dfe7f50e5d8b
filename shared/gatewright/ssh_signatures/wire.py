"""The wire format of OpenSSH (RFC 4251, section 5): fields in sequence, the signed data of a signature, and its armour."""

from __future__ import annotations

import base64
import struct
from typing import Final

from gatewright.errors import MalformedError, VerificationError

MAGIC: Final = b"SSHSIG"
BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
END: Final = "-----END SSH SIGNATURE-----"


class WireReader:
    """Reads the fields of the wire format in sequence. Raises MalformedError for truncated data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise bad("it is cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        found: int = struct.unpack(">I", self.take(4))[0]
        return found

    def text(self) -> bytes:
        return self.take(self.number())

    def end(self) -> None:
        if self._at != len(self._data):
            raise bad("something follows its end")


def text(data: bytes) -> bytes:
    """Encode ``data`` as a string field: its length, then its bytes."""
    return struct.pack(">I", len(data)) + data


def signed_data(namespace: bytes, hash_name: bytes, digest: bytes) -> bytes:
    """Return the data that an SSH signature covers for a message with this digest."""
    return MAGIC + text(namespace) + text(b"") + text(hash_name) + text(digest)


def armour(blob: bytes, namespace: bytes, hash_name: bytes, signature: bytes) -> str:
    """Format a signature as armoured text, including its public key."""
    whole = MAGIC + struct.pack(">I", 1) + text(blob) + text(namespace) + text(b"") + text(hash_name) + text(signature)
    body = base64.b64encode(whole).decode()
    return "\n".join([BEGIN, *(body[at : at + 70] for at in range(0, len(body), 70)), END, ""])


def bad(words: str) -> MalformedError:
    return MalformedError(f"not an SSH signature: {words}", code="bad_ssh_signature")


def wrong(words: str) -> VerificationError:
    return VerificationError(f"the signature is not valid: {words}", code="signature_invalid")
