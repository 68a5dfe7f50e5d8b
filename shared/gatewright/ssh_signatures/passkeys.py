"""Passkeys (WebAuthn, level 2) in the forms that OpenSSH has for them: the key as ``sk-ecdsa-sha2-nistp256@openssh.com``, whose
application is the relying party's id, the signature as ``webauthn-sk-ecdsa-sha2-nistp256@openssh.com`` (PROTOCOL.u2f).

So ``ssh-keygen -Y verify`` takes them too. It does not ask who the page was, nor whether the person was verified: this does.
Counters are not compared: passkeys that are kept in several places have none, and a challenge is good for one decision alone.
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
#: Applications of keys that ssh itself makes on a token; a relying party has the name of a host.
SSH_APPLICATION: Final = "ssh:"
_CURVE: Final = b"nistp256"
_HASH: Final = b"sha256"
#: Bits of the flags: a person has touched it; and was recognised, by a finger, a face or a number.
_PRESENT, _VERIFIED = 0x01, 0x04
#: Of the flags: a new key follows (never where something is signed), extensions follow.
_NEW_KEY, _EXTENSIONS = 0x40, 0x80
#: Hash of the relying party, flags, counter.
_HEAD_BYTES = 37
#: After an origin: the end, or that no other site's frame was around the page; then the end, or what a later browser adds.
_NOT_FRAMED: Final = (b"}", b',"crossOrigin":false}', b',"crossOrigin":false,')


@dataclass(frozen=True, slots=True)
class PasskeyAssertion:
    """What a browser gives for a challenge: three strings of bytes; ``signature`` in DER."""

    client_data: bytes
    authenticator_data: bytes
    signature: bytes


def challenge_of(namespace: str, message: bytes) -> bytes:
    """What a passkey is given to sign ``message`` in ``namespace``: the data that any SSH signature of it covers."""
    return signed_data(namespace.encode(), _HASH, hashlib.sha256(message).digest())


def passkey_line(public_key: bytes, relying_party: str) -> str:
    """A new passkey as a roster holds it. ``public_key``: SubjectPublicKeyInfo in DER, as a browser tells it.

    Raises MalformedError (``bad_ssh_key``) for what is no key on the curve P-256.
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
    """The relying party of a passkey's line; empty for any other key, also one that ssh has made on a token."""
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
    """The signature in its armour. Nothing is verified but that the parts are those of one.

    Raises MalformedError (``bad_ssh_key``, ``bad_ssh_signature``).
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
    """What the signature of a passkey covers; ``reader`` stands behind its counter, ``head`` is flags and counter.

    1. the person was there, and was recognised  2. the page had one of ``origins``, and is what it says
    3. it signed ``challenge``, in a page and not in a frame of another site (level 2, 5.8.1.2: the beginning of what a browser
    writes is fixed, byte for byte)  4. what follows is what the flags say.
    Raises VerificationError (``passkey_person_unverified``, ``passkey_origin_differs``, ``signature_invalid``).
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
    """The origin that a browser has written, in its place; empty where there is none."""
    return client_data.partition(b'","origin":"')[2].partition(b'"')[0]


def _url64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _number(value: int) -> bytes:
    """As RFC 4251 writes a positive number."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")
