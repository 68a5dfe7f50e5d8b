"""SSH signatures (PROTOCOL.sshsig of OpenSSH), signed with a key in memory and verified in this process, without ssh-keygen.

Supported keys: ed25519, ECDSA over the NIST curves, RSA of at least 2048 bits, and the two kinds of hardware tokens, which must
confirm a touch. This module does not decide who may sign what.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gatewright.errors import MalformedError
from gatewright.ssh_signatures.key_strength import ECDSA, ED25519, SK_ED25519, check_strength
from gatewright.ssh_signatures.passkeys import SK_ECDSA, WEBAUTHN, covered_by_passkey
from gatewright.ssh_signatures.wire import BEGIN, END, MAGIC, WireReader, armour, bad, signed_data, text, wrong

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
#: Maximum bytes of one signature; that of an RSA key of 16384 bits is smaller.
_LARGEST = 16 * 1024
#: Flag bit of a hardware token: the user touched it.
_USER_PRESENT = 0x01


def fingerprint(key: str) -> str:
    """Return the fingerprint of a one-line OpenSSH public key, as ``SHA256:...``. Raises MalformedError."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_blob(key)).digest()).decode().rstrip("=")


def public_blob(key: str) -> bytes:
    """Return the bytes of a public key ``ssh-ed25519 AAAA... [comment]``.

    Raises:
        MalformedError: ``bad_ssh_key``, none of the supported kinds.
    """
    words = key.split()
    try:
        blob = base64.b64decode(words[1], validate=True) if len(words) > 1 else b""
        kind = WireReader(blob).text()
    except (MalformedError, binascii.Error, ValueError):
        kind = b""
    if not kind or kind != words[0].encode() or kind not in {ED25519, SK_ED25519, SK_ECDSA, b"ssh-rsa", *ECDSA}:
        named = words[0][:80] if words else "an empty line"
        raise MalformedError(f"{named!a} is no public key of OpenSSH that can sign here{_why(words)}", code="bad_ssh_key")
    return blob


def check_key(key: str) -> None:
    """Check that signatures under a public key can be trusted.

    Raises:
        MalformedError: ``bad_ssh_key`` or ``weak_ssh_key``.
    """
    blob = public_blob(key)
    check_strength(WireReader(blob).text(), blob)


def _why(words: list[str]) -> str:
    kind = words[0] if words else ""
    if "-cert-" in kind:
        return ": it is a certificate, and the key itself is wanted"
    return ": DSA is broken" if kind == "ssh-dss" else ""


def signer_of(armoured: str) -> str:
    """Return the fingerprint of the key that an armoured signature names, unverified. Raises MalformedError."""
    blob = _fields(armoured)[0]
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def page_of(armoured: str) -> str:
    """Return the origin of the page that a passkey signature names, unverified; empty for other signatures."""
    try:
        reader = WireReader(_fields(armoured)[3])
        if reader.text() != WEBAUTHN:
            return ""
        reader.text()
        reader.take(5)
        return reader.text().decode("ascii", "backslashreplace")
    except MalformedError:
        return ""


def verify_ssh(key: str, namespace: str, message: bytes, armoured: str, origins: Sequence[str] = ()) -> None:
    """Verify that ``armoured`` is the signature of ``message`` by ``key`` in ``namespace``.

    1. The armour and its fields are well-formed.
    2. It has that key and namespace.
    3. The signature is valid.

    Args:
        key: the public key on one line.
        namespace: purpose of the signature.
        message: the signed bytes.
        armoured: the signature.
        origins: pages on which a passkey may sign. Other kinds of keys sign on no page.

    Raises:
        MalformedError: ``bad_ssh_signature`` or ``bad_ssh_key``.
        VerificationError: ``signature_invalid``, ``passkey_person_unverified`` or ``passkey_origin_differs``.
    """
    blob, signed_namespace, hash_name, signature = _fields(armoured)  # 1
    if blob != public_blob(key):  # 2
        raise wrong("it is by another key")
    if signed_namespace != namespace.encode():
        raise wrong("it was made for another purpose")
    digest = _HASHES[hash_name](message).digest()
    _check_signature(blob, signature, signed_data(signed_namespace, hash_name, digest), origins)  # 3


def sign_ssh(secret: Ed25519PrivateKey, namespace: str, message: bytes) -> str:
    """Sign ``message`` with an ed25519 key in memory; return the armoured signature. The result is deterministic."""
    blob = text(ED25519) + text(secret.public_key().public_bytes_raw())
    space, digest = namespace.encode(), hashlib.sha512(message).digest()
    signature = text(ED25519) + text(secret.sign(signed_data(space, b"sha512", digest)))
    return armour(blob, space, b"sha512", signature)


def public_line(secret: Ed25519PrivateKey) -> str:
    """Return the public half of an ed25519 key as a roster entry."""
    blob = text(ED25519) + text(secret.public_key().public_bytes_raw())
    return f"{ED25519.decode()} {base64.b64encode(blob).decode()}"


def _fields(armoured: str) -> tuple[bytes, bytes, bytes, bytes]:
    """Parse a signature into public key, namespace, hash name and signature."""
    lines = armoured.strip().splitlines()
    if len(armoured) > _LARGEST or len(lines) < 3 or lines[0] != BEGIN or lines[-1] != END:
        raise bad("it has no armour")
    try:
        reader = WireReader(base64.b64decode("".join(lines[1:-1]), validate=True))
    except (binascii.Error, ValueError):
        raise bad("its armour holds no base 64") from None
    if reader.take(len(MAGIC)) != MAGIC or reader.number() != 1:
        raise bad("it is of an unknown version")
    blob, namespace, reserved, hash_name, signature = (reader.text() for _ in range(5))
    reader.end()
    if reserved or hash_name not in _HASHES or not namespace:
        raise bad("its fields are not those of a signature")
    return blob, namespace, hash_name, signature


def _check_signature(blob: bytes, signature: bytes, data: bytes, origins: Sequence[str]) -> None:
    """Raise VerificationError unless ``signature`` of ``data`` is by the key ``blob``."""
    from cryptography.exceptions import InvalidSignature

    kind = WireReader(blob).text()
    try:
        check_strength(kind, blob)
    except MalformedError as error:
        raise wrong(error.message) from None
    reader = WireReader(signature)
    algorithm, value = reader.text(), reader.text()
    if (algorithm == WEBAUTHN) != bool(origins):
        raise wrong("a passkey signs on a page of its origins, and no other key does")
    if kind in {SK_ED25519, SK_ECDSA}:
        flags, counter = reader.take(1), reader.take(4)
        if not flags[0] & _USER_PRESENT:
            raise wrong("the token was not touched")
        if algorithm == WEBAUTHN:
            covered = covered_by_passkey(reader, flags + counter, data, origins)
        else:
            covered = flags + counter + hashlib.sha256(data).digest()
        data = hashlib.sha256(_application(blob)).digest() + covered
    reader.end()
    try:
        _by_kind(kind, blob, algorithm, value, data)
    except (InvalidSignature, ValueError):
        raise wrong("it does not hold") from None


def _by_kind(kind: bytes, blob: bytes, algorithm: bytes, value: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    fields = WireReader(blob)
    fields.text()
    if kind in {ED25519, SK_ED25519} and algorithm == kind:
        Ed25519PublicKey.from_public_bytes(fields.text()).verify(value, data)
    elif kind in {SK_ECDSA, *ECDSA} and (algorithm == kind or (kind, algorithm) == (SK_ECDSA, WEBAUTHN)):
        curves = {b"nistp256": (ec.SECP256R1(), SHA256()), b"nistp384": (ec.SECP384R1(), SHA384())}
        curve, hashed = curves.get(fields.text(), (ec.SECP521R1(), SHA512()))
        numbers = WireReader(value)
        pair = encode_dss_signature(*(int.from_bytes(numbers.text(), "big") for _ in range(2)))
        numbers.end()
        ec.EllipticCurvePublicKey.from_encoded_point(curve, fields.text()).verify(pair, data, ec.ECDSA(hashed))
    elif kind == b"ssh-rsa" and algorithm in {b"rsa-sha2-256", b"rsa-sha2-512"}:
        key = load_ssh_public_key(b"ssh-rsa " + base64.b64encode(blob))
        if not isinstance(key, rsa.RSAPublicKey):
            raise wrong("its key is none of RSA")
        key.verify(value, data, padding.PKCS1v15(), SHA256() if algorithm.endswith(b"256") else SHA512())
    else:
        raise wrong("its algorithm is not one of that key")


def _application(blob: bytes) -> bytes:
    """Return the application of a token's key, which its signatures cover: the last field of the key."""
    reader = WireReader(blob)
    kind = reader.text()
    for _ in range(2 if kind == SK_ECDSA else 1):
        reader.text()
    return reader.text()
