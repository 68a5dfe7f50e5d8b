"""Signed claims of NATS: JSON Web Tokens of version 2, signed with an nkey (``ed25519-nkey``).

The format is that of github.com/nats-io/jwt, for which no Python library exists. This module writes what our servers need
and reads nothing: the server judges the claims of others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

KeyKind = Literal["operator", "account", "user"]

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


@dataclass(frozen=True, slots=True)
class SigningNkey:
    """An nkey that signs claims. ``repr`` shows no seed."""

    seed: str
    public: str

    def __repr__(self) -> str:
        return f"SigningNkey({self.public})"

    @classmethod
    def of(cls, seed: str) -> SigningNkey:
        """Raises ValueError when it is no seed."""
        import nkeys

        try:
            pair = nkeys.from_seed(bytearray(seed.encode()))  # type: ignore[no-untyped-call] # no types there
        except nkeys.NkeysError as error:
            raise ValueError(str(error)) from error
        return cls(seed, bytes(pair.public_key).decode("ascii"))

    def sign(self, data: bytes) -> bytes:
        import nkeys

        pair = nkeys.from_seed(bytearray(self.seed.encode()))  # type: ignore[no-untyped-call] # no types there
        return bytes(pair.sign(data))


def new_seed_of(kind: KeyKind) -> str:
    """Return a new random seed."""
    import nkeys

    prefix = {"operator": nkeys.PREFIX_BYTE_OPERATOR, "account": nkeys.PREFIX_BYTE_ACCOUNT, "user": nkeys.PREFIX_BYTE_USER}[
        kind
    ]
    return bytes(nkeys.encode_seed(os.urandom(32), prefix)).decode("ascii")  # type: ignore[no-untyped-call] # no types there


def sign_token(issuer: SigningNkey, subject: str, name: str, claims: Mapping[str, Any], issued: int) -> str:
    """Return a signed token.

    Args:
        claims: the NATS part of the token, with its ``type``.
        issued: seconds of Unix time.

    The token id is the digest of the other fields, as in the Go library.
    """
    body: dict[str, Any] = {
        "jti": "",
        "iat": issued,
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {**claims, "version": 2},
    }
    body["jti"] = base64.b32encode(hashlib.new("sha512_256", _compact(body)).digest()).decode().rstrip("=")
    text = f"{_encode_base64(_compact(_HEADER))}.{_encode_base64(_compact(body))}"
    return f"{text}.{_encode_base64(issuer.sign(text.encode('ascii')))}"


def _compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
