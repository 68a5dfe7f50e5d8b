"""SSH signatures (PROTOCOL.sshsig of OpenSSH): made with a key in memory, and verified in this process, without any program.

Keys: ed25519, ECDSA over the NIST curves, RSA of 2048 bits or more, and the two kinds that live in a hardware token, of which a
touch is demanded. It knows nothing of who may sign what.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from typing import TYPE_CHECKING, Final

from gatewright.errors import MalformedError, VerificationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
#: Bytes of one signature; that of an RSA key of 16384 bits has less.
_LARGEST = 16 * 1024
_SMALLEST_RSA = 2048
_ED25519 = b"ssh-ed25519"
_SK_ED25519 = b"sk-ssh-ed25519@openssh.com"
_SK_ECDSA = b"sk-ecdsa-sha2-nistp256@openssh.com"
_ECDSA: Final = (b"ecdsa-sha2-nistp256", b"ecdsa-sha2-nistp384", b"ecdsa-sha2-nistp521")
#: The token says in this bit of the flags that a person has touched it.
_USER_PRESENT = 0x01


class _Reader:
    """The fields of the wire format, one after another. Raises MalformedError for what is cut short."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise _bad("it is cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        found: int = struct.unpack(">I", self.take(4))[0]
        return found

    def text(self) -> bytes:
        return self.take(self.number())

    def end(self) -> None:
        if self._at != len(self._data):
            raise _bad("something follows its end")


def fingerprint(key: str) -> str:
    """``SHA256:...`` of a public key as OpenSSH writes it in one line. Raises MalformedError."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_blob(key)).digest()).decode().rstrip("=")


def public_blob(key: str) -> bytes:
    """The bytes of a public key ``ssh-ed25519 AAAA... [comment]``.

    Raises MalformedError (``bad_ssh_key``) for what is none of the kinds that can sign here.
    """
    words = key.split()
    try:
        blob = base64.b64decode(words[1], validate=True) if len(words) > 1 else b""
        kind = _Reader(blob).text()
    except (MalformedError, binascii.Error, ValueError):
        kind = b""
    if not kind or kind != words[0].encode() or kind not in {_ED25519, _SK_ED25519, _SK_ECDSA, b"ssh-rsa", *_ECDSA}:
        raise MalformedError("not a public key of OpenSSH that can sign here", code="bad_ssh_key")
    return blob


def signer_of(armoured: str) -> str:
    """The fingerprint of the key that an armoured signature names; nothing is verified. Raises MalformedError."""
    blob = _fields(armoured)[0]
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def verify_ssh(key: str, namespace: str, message: bytes, armoured: str) -> None:
    """Whether ``armoured`` is the signature of ``message`` by ``key`` in ``namespace``.

    1. the armour and its fields  2. the key and the namespace are those  3. the signature holds.
    Raises MalformedError (``bad_ssh_signature``, ``bad_ssh_key``), VerificationError (``signature_invalid``).
    """
    blob, signed_namespace, hash_name, signature = _fields(armoured)  # 1
    if blob != public_blob(key):  # 2
        raise _wrong("it is by another key")
    if signed_namespace != namespace.encode():
        raise _wrong("it was made for another purpose")
    digest = _HASHES[hash_name](message).digest()
    data = _MAGIC + _text(namespace.encode()) + _text(b"") + _text(hash_name) + _text(digest)
    _check(blob, signature, data)  # 3


def sign_ssh(secret: Ed25519PrivateKey, namespace: str, message: bytes) -> str:
    """The armoured signature of ``message`` by an ed25519 key in memory; the same bytes each time."""
    blob = _text(_ED25519) + _text(secret.public_key().public_bytes_raw())
    digest = hashlib.sha512(message).digest()
    head = _MAGIC + _text(namespace.encode()) + _text(b"") + _text(b"sha512")
    signature = _text(_ED25519) + _text(secret.sign(head + _text(digest)))
    whole = _MAGIC + struct.pack(">I", 1) + _text(blob) + _text(namespace.encode()) + _text(b"") + _text(b"sha512")
    body = base64.b64encode(whole + _text(signature)).decode()
    return "\n".join([_BEGIN, *(body[at : at + 70] for at in range(0, len(body), 70)), _END, ""])


def public_line(secret: Ed25519PrivateKey) -> str:
    """The public half of an ed25519 key as a roster holds it."""
    blob = _text(_ED25519) + _text(secret.public_key().public_bytes_raw())
    return f"{_ED25519.decode()} {base64.b64encode(blob).decode()}"


def _fields(armoured: str) -> tuple[bytes, bytes, bytes, bytes]:
    """Public key, namespace, name of the hash, signature."""
    lines = armoured.strip().splitlines()
    if len(armoured) > _LARGEST or len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:
        raise _bad("it has no armour")
    try:
        reader = _Reader(base64.b64decode("".join(lines[1:-1]), validate=True))
    except (binascii.Error, ValueError):
        raise _bad("its armour holds no base 64") from None
    if reader.take(len(_MAGIC)) != _MAGIC or reader.number() != 1:
        raise _bad("it is of an unknown version")
    blob, namespace, reserved, hash_name, signature = (reader.text() for _ in range(5))
    reader.end()
    if reserved or hash_name not in _HASHES or not namespace:
        raise _bad("its fields are not those of a signature")
    return blob, namespace, hash_name, signature


def _check(blob: bytes, signature: bytes, data: bytes) -> None:
    """Raises VerificationError unless ``signature`` of ``data`` is by the key ``blob``."""
    from cryptography.exceptions import InvalidSignature

    kind = _Reader(blob).text()
    reader = _Reader(signature)
    algorithm, value = reader.text(), reader.text()
    if kind in {_SK_ED25519, _SK_ECDSA}:
        flags, counter = reader.take(1), reader.take(4)
        if not flags[0] & _USER_PRESENT:
            raise _wrong("the token was not touched")
        application = _application(blob)
        data = hashlib.sha256(application).digest() + flags + counter + hashlib.sha256(data).digest()
    reader.end()
    try:
        _by_kind(kind, blob, algorithm, value, data)
    except (InvalidSignature, ValueError):
        raise _wrong("it does not hold") from None


def _by_kind(kind: bytes, blob: bytes, algorithm: bytes, value: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    fields = _Reader(blob)
    fields.text()
    if kind in {_ED25519, _SK_ED25519} and algorithm == kind:
        Ed25519PublicKey.from_public_bytes(fields.text()).verify(value, data)
    elif kind in {_SK_ECDSA, *_ECDSA} and algorithm == kind:
        curves = {b"nistp256": (ec.SECP256R1(), SHA256()), b"nistp384": (ec.SECP384R1(), SHA384())}
        curve, hashed = curves.get(fields.text(), (ec.SECP521R1(), SHA512()))
        numbers = _Reader(value)
        pair = encode_dss_signature(*(int.from_bytes(numbers.text(), "big") for _ in range(2)))
        numbers.end()
        ec.EllipticCurvePublicKey.from_encoded_point(curve, fields.text()).verify(pair, data, ec.ECDSA(hashed))
    elif kind == b"ssh-rsa" and algorithm in {b"rsa-sha2-256", b"rsa-sha2-512"}:
        key = load_ssh_public_key(b"ssh-rsa " + base64.b64encode(blob))
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _SMALLEST_RSA:
            raise _wrong(f"an RSA key has {_SMALLEST_RSA} bits at least")
        key.verify(value, data, padding.PKCS1v15(), SHA256() if algorithm.endswith(b"256") else SHA512())
    else:
        raise _wrong("its algorithm is not one of that key")


def _application(blob: bytes) -> bytes:
    """What a token's key is for, which its signatures cover: the last field of the key."""
    reader = _Reader(blob)
    kind = reader.text()
    for _ in range(2 if kind == _SK_ECDSA else 1):
        reader.text()
    return reader.text()


def _text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _bad(words: str) -> MalformedError:
    return MalformedError(f"not an SSH signature: {words}", code="bad_ssh_signature")


def _wrong(words: str) -> VerificationError:
    return VerificationError(f"the signature is not valid: {words}", code="signature_invalid")
