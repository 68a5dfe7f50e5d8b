"""Signatures in the format of minisign, which many systems have: https://jedisct1.github.io/minisign/#signature-format.

The algorithm is ``ED``: ed25519 over the BLAKE2b-512 digest of the file. A second signature covers the first one and the
trusted comment. The same file, comment and key give the same bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gatewright.evidence.signing.keys import PrivateKey, PublicKey

_HASHED, _KEY = b"ED", b"Ed"


def minisignature(key: PrivateKey, data: bytes, comment: str) -> bytes:
    """Return the ``.minisig`` file of ``data``; ``comment`` is one line, and signed."""
    signed = key.secret.sign(hashlib.blake2b(data).digest())
    head = base64.b64encode(_HASHED + _key_number(key.public) + signed).decode()
    both = base64.b64encode(key.secret.sign(signed + comment.encode())).decode()
    name = _key_number(key.public)[::-1].hex().upper()
    lines = (f"untrusted comment: signature from gatewright key {name}", head, f"trusted comment: {comment}", both)
    return "".join(f"{line}\n" for line in lines).encode()


def is_minisignature(key: PublicKey, data: bytes, comment: str, file: bytes) -> bool:
    """Return whether ``file`` is the ``.minisig`` file of ``data`` and ``comment`` by ``key``."""
    lines, verifier = file.split(b"\n"), Ed25519PublicKey.from_public_bytes(key.raw)
    try:
        head, both = (base64.b64decode(lines[number], validate=True) for number in (1, 3))
        signed = head[10:]
        verifier.verify(signed, hashlib.blake2b(data).digest())
        verifier.verify(both, signed + comment.encode())
    except (IndexError, binascii.Error, InvalidSignature):
        return False
    return head[:10] == _HASHED + _key_number(key) and lines[2] == f"trusted comment: {comment}".encode()


def minisign_public_key(key: PublicKey) -> bytes:
    """Return the public key file for ``minisign -V -p FILE``."""
    name, coded = _key_number(key)[::-1].hex().upper(), base64.b64encode(_KEY + _key_number(key) + key.raw).decode()
    return f"untrusted comment: minisign public key {name}\n{coded}\n".encode()


def _key_number(key: PublicKey) -> bytes:
    """Return the eight bytes by which minisign recognises a key; programs print them in reverse order."""
    return bytes.fromhex(key.key_id)[:8]
