"""Checks for weak public keys, whose signatures others could forge. Run when a key is added, and at each verification."""

from __future__ import annotations

from typing import Final

from gatewright.errors import MalformedError
from gatewright.ssh_signatures.passkeys import SK_ECDSA
from gatewright.ssh_signatures.wire import WireReader

#: Bits of an RSA key. A smaller key can be factored; the signature of a larger one exceeds the size limit.
SMALLEST_RSA: Final = 2048
LARGEST_RSA: Final = 16_384
ED25519: Final = b"ssh-ed25519"
SK_ED25519: Final = b"sk-ssh-ed25519@openssh.com"
#: Curve name and bytes of an uncompressed point, by kind of key.
ECDSA: Final = {
    b"ecdsa-sha2-nistp256": (b"nistp256", 65),
    b"ecdsa-sha2-nistp384": (b"nistp384", 97),
    b"ecdsa-sha2-nistp521": (b"nistp521", 133),
}
_FIELD = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
#: y of the eight points of small order on edwards25519 (RFC 8032, section 5.1): any message has a signature under them.
_SMALL_ORDER: Final = frozenset({0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH})


def check_strength(kind: bytes, blob: bytes) -> None:
    """Check that a key of this kind is strong enough to trust its signatures.

    Args:
        kind: key type of the wire format, such as ``ssh-ed25519``.
        blob: the public key in wire format.

    Raises:
        MalformedError: ``weak_ssh_key``, with the weakness.
    """
    try:
        _check_key(kind, WireReader(blob))
    except MalformedError as error:
        if error.reason == "weak_ssh_key":
            raise
        raise _weak("its encoding is malformed") from None


def _check_key(kind: bytes, fields: WireReader) -> None:
    fields.text()
    if kind == b"ssh-rsa":
        exponent, modulus = fields.text(), fields.text()
        fields.end()
        _check_rsa(int.from_bytes(exponent), int.from_bytes(modulus))
        return
    if kind in {ED25519, SK_ED25519}:
        _check_ed25519(fields.text())
    else:
        _check_ecdsa(b"ecdsa-sha2-nistp256" if kind == SK_ECDSA else kind, fields.text(), fields.text())
    if kind in {SK_ED25519, SK_ECDSA}:
        fields.text()
    fields.end()


def _check_rsa(exponent: int, modulus: int) -> None:
    bits = modulus.bit_length()
    if not SMALLEST_RSA <= bits <= LARGEST_RSA:
        raise _weak(f"it is an RSA key of {bits} bits, and {SMALLEST_RSA} to {LARGEST_RSA} are accepted")
    if exponent < 3 or exponent % 2 == 0 or exponent.bit_length() > 64:
        raise _weak("its RSA exponent makes signatures that anyone can compute")
    if modulus % 2 == 0:
        raise _weak("its RSA modulus is even, so that anyone can factor it")


def _check_ed25519(point: bytes) -> None:
    if len(point) != 32:
        raise _weak("its encoding is malformed")
    y = (int.from_bytes(point, "little") & ((1 << 255) - 1)) % _FIELD
    if y in _SMALL_ORDER:
        raise _weak("it is a point of small order, under which any message has a signature")


def _check_ecdsa(kind: bytes, curve: bytes, point: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    wanted, size = ECDSA[kind]
    curves = {b"nistp256": ec.SECP256R1(), b"nistp384": ec.SECP384R1(), b"nistp521": ec.SECP521R1()}
    words = f"it is no point on the curve {wanted.decode()}"
    if curve != wanted or len(point) != size:
        raise _weak(words)
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(curves[wanted], point)
    except ValueError:
        raise _weak(words) from None


def _weak(words: str) -> MalformedError:
    return MalformedError(f"the key cannot be relied on: {words}", code="weak_ssh_key")
