"""Passkeys (WebAuthn, level 2) in the formats of OpenSSH (PROTOCOL.u2f).

The key is an ``sk-ecdsa-sha2-nistp256@openssh.com`` key whose application is the relying party's id. The signature is a
``webauthn-sk-ecdsa-sha2-nistp256@openssh.com`` signature, which ``ssh-keygen -Y verify`` accepts, too. But ssh-keygen checks
neither the page nor user verification; this module checks both. Counters are not compared: passkeys that are synchronized
between devices have none, and each challenge is valid for one decision.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gatewright.errors import MalformedError, VerificationError
from gatewright.ssh_signatures.wire import WireReader, armour, bad, signed_data, text, wrong

WEBAUTHN: Final = b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
SK_ECDSA: Final = b"sk-ecdsa-sha2-nistp256@openssh.com"
#: Applications of keys that ssh itself makes on a token. A relying party has a host name instead.
SSH_APPLICATION: Final = "ssh:"
_CURVE: Final = b"nistp256"
_HASH: Final = b"sha256"
#: Flag bits: user present (touched), and user verified (by a finger, a face or a PIN).
_PRESENT, _VERIFIED = 0x01, 0x04
#: Flag bits: attested key data follows (never in a signature), extensions follow.
_NEW_KEY, _EXTENSIONS = 0x40, 0x80
#: Hash of the relying party, flags, counter.
_HEAD_BYTES = 37
#: Allowed text after an origin: the end, or no cross-origin frame; then the end, or fields of later browsers.
_NOT_FRAMED: Final = (b"}", b',"crossOrigin":false}', b',"crossOrigin":false,')


@dataclass(frozen=True, slots=True)
class PasskeyAssertion:
    """The response of a browser to a challenge, as three byte strings. ``signature`` is in DER."""

    client_data: bytes
    authenticator_data: bytes
    signature: bytes


def challenge_of(namespace: str, message: bytes) -> bytes:
    """Return the challenge for a passkey: the data that every SSH signature of ``message`` in ``namespace`` covers."""
    return signed_data(namespace.encode(), _HASH, hashlib.sha256(message).digest())


def passkey_line(public_key: bytes, relying_party: str) -> str:
    """Format a new passkey as a roster entry.

    Args:
        public_key: SubjectPublicKeyInfo in DER, as the browser returns it.
        relying_party: the relying party's id.

    Raises:
        MalformedError: ``bad_ssh_key``, no key on the curve P-256.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

    try:
        key = load_der_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise MalformedError("not the public key of a passkey: it takes one of ES256", code="bad_ssh_key")
    point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    blob = text(SK_ECDSA) + text(_CURVE) + text(point) + text(relying_party.encode())
    return f"{SK_ECDSA.decode()} {base64.b64encode(blob).decode()}"


def relying_party_of(key: str) -> str:
    """Return the relying party of a passkey; empty for any other key, including one that ssh made on a token."""
    words = key.split()
    if len(words) < 2 or words[0].encode() != SK_ECDSA:
        return ""
    try:
        reader = WireReader(base64.b64decode(words[1], validate=True))
        application = [reader.text() for _ in range(4)][3].decode()
    except (MalformedError, binascii.Error, ValueError):
        return ""
    return "" if application.startswith(SSH_APPLICATION) else application


def armoured_assertion(key: str, namespace: str, assertion: PasskeyAssertion) -> str:
    """Format an assertion as an armoured SSH signature. Only its structure is checked; nothing is verified.

    Raises:
        MalformedError: ``bad_ssh_key`` or ``bad_ssh_signature``.
    """
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    party = relying_party_of(key)
    if not party:
        raise MalformedError("not the key of a passkey", code="bad_ssh_key")
    head = assertion.authenticator_data[:_HEAD_BYTES]
    if len(head) < _HEAD_BYTES or head[:32] != hashlib.sha256(party.encode()).digest():
        raise bad("it was made for another relying party")
    try:
        pair = decode_dss_signature(assertion.signature)
    except ValueError:
        raise bad("it has no two numbers") from None
    flags, counter = head[32:33], head[33:37]
    value = b"".join(text(_number(each)) for each in pair)
    extensions = assertion.authenticator_data[_HEAD_BYTES:]
    signature = text(WEBAUTHN) + text(value) + flags + counter
    signature += text(_origin_in(assertion.client_data)) + text(assertion.client_data) + text(extensions)
    blob = base64.b64decode(key.split()[1])
    return armour(blob, namespace.encode(), _HASH, signature)


def covered_by_passkey(reader: WireReader, head: bytes, challenge: bytes, origins: Sequence[str]) -> bytes:
    """Return the data that a passkey's signature covers, after these checks:

    1. The user was present and verified.
    2. The page has one of ``origins``, as recorded in the client data.
    3. The challenge is ``challenge``, and the page is no cross-origin frame. Browsers write the beginning of the client data in
       a fixed order, byte for byte (level 2, 5.8.1.2).
    4. The rest has the structure that the flags announce.

    Args:
        reader: positioned after the counter.
        head: flags and counter.
        challenge: the expected challenge.
        origins: accepted origins of the page.

    Raises:
        VerificationError: ``passkey_person_unverified``, ``passkey_origin_differs`` or ``signature_invalid``.
    """
    origin, client_data, extensions = reader.text(), reader.text(), reader.text()
    flags = head[0]
    if not flags & _PRESENT or not flags & _VERIFIED:  # 1
        words = "the passkey was used without recognising the person (a finger, a face or a number)"
        raise VerificationError(words, code="passkey_person_unverified")
    if origin.decode("utf-8", "replace") not in origins:  # 2
        words = f"it was signed on a page of {origin[:200].decode('utf-8', 'replace')}, and the roster has {', '.join(origins)}"
        raise VerificationError(words, code="passkey_origin_differs")
    begun = b'{"type":"webauthn.get","challenge":"' + _url64(challenge) + b'","origin":"' + origin + b'"'
    if not client_data.startswith(begun) or not client_data[len(begun) :].startswith(_NOT_FRAMED):  # 3
        raise wrong("the passkey was asked for something else, or elsewhere")
    if flags & _NEW_KEY or bool(flags & _EXTENSIONS) != bool(extensions):  # 4
        raise wrong("its flags are not those of what follows")
    return head + extensions + hashlib.sha256(client_data).digest()


def _origin_in(client_data: bytes) -> bytes:
    """Return the origin from its fixed place in the client data; empty where there is none."""
    return client_data.partition(b'","origin":"')[2].partition(b'"')[0]


def _url64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _number(value: int) -> bytes:
    """Encode a positive integer (mpint of RFC 4251)."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")
