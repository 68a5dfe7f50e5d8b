"""Signatures in the format of minisign, which many systems have: https://jedisct1.github.io/minisign/#signature-format.

The algorithm is ``ED``: ed25519 over the BLAKE2b-512 digest of the file. A second signature covers the first one and the
trusted comment. The same file, comment and key give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib

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


def minisign_public_key(key: PublicKey) -> bytes:
    """Return the public key file for ``minisign -V -p FILE``."""
    name, coded = _key_number(key)[::-1].hex().upper(), base64.b64encode(_KEY + _key_number(key) + key.raw).decode()
    return f"untrusted comment: minisign public key {name}\n{coded}\n".encode()


def _key_number(key: PublicKey) -> bytes:
    """Return the eight bytes by which minisign recognises a key; programs print them in reverse order."""
    return bytes.fromhex(key.key_id)[:8]
