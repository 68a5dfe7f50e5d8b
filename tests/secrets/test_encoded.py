"""Credentials written in base64 and hexadecimal digits, in one piece and in the pieces that source and data make of them."""

from __future__ import annotations

import base64
import hashlib
import re
import sysconfig
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gatewright.secrets.scanner import SecretScanner

TOKEN = b"ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
SECRETS = {"a token": TOKEN, "a private key": PEM}

Form = Callable[[str], str]


def wrapped(text: str, width: int, before: str = "", after: str = "", end: str = "\n") -> str:
    return end.join(f"{before}{line}{after}" for line in textwrap.wrap(text, width))


BASE64: dict[str, Form] = {
    "in one piece": lambda text: f"key = {text}",
    "in lines": lambda text: wrapped(text, 64),
    "in short lines": lambda text: wrapped(text, 8),
    "in lines of Windows": lambda text: wrapped(text, 76, end="\r\n"),
    "a block of YAML": lambda text: "key: |\n" + wrapped(text, 60, "    "),
    "a list of YAML": lambda text: wrapped(text, 16, "  - "),
    "strings one after another": lambda text: "KEY = (\n" + wrapped(text, 20, '    "', '"') + "\n)",
    "strings that are added": lambda text: "KEY = " + wrapped(text, 20, '"', '" +') + ' "";',
    "an array": lambda text: "[" + wrapped(text, 10, "'", "', ", end="") + "]",
    "escaped line ends": lambda text: '{"key": "' + wrapped(text, 64, end="\\n") + '"}',
    "continued lines": lambda text: wrapped(text, 40, end="\\\n"),
    "comments": lambda text: wrapped(text, 64, "# "),
    "comments of C": lambda text: wrapped(text, 64, "// "),
    "after another string": lambda text: 'name = "unrelated", "' + '",\n"'.join(textwrap.wrap(text, 30)) + '"',
}
HEXADECIMAL: dict[str, Callable[[bytes], str]] = {
    "plain": lambda data: data.hex(),
    "capitals": lambda data: data.hex().upper(),
    "after an odd digit": lambda data: "a" + data.hex(),
    "in lines": lambda data: wrapped(data.hex(), 64),
    "in lines of odd length": lambda data: wrapped(data.hex(), 63),
    "colons": lambda data: data.hex(":"),
    "dashes": lambda data: data.hex("-"),
    "blanks": lambda data: wrapped(data.hex(" "), 48),
    "0x": lambda data: ", ".join(f"0x{byte:02x}" for byte in data),
    "escapes": lambda data: '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"',
    "escapes of JSON": lambda data: '"' + "".join(f"\\u00{byte:02x}" for byte in data) + '"',
    "a URL": lambda data: "".join(f"%{byte:02X}" for byte in data),
    "entities": lambda data: "".join(f"&#x{byte:02x};" for byte in data),
}
scanner = SecretScanner()


@pytest.mark.parametrize("form", BASE64)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_base64_is_found_whatever_pieces_it_is_in(secret: str, form: str) -> None:
    assert scanner.find(BASE64[form](base64.b64encode(SECRETS[secret]).decode()).encode())


@pytest.mark.parametrize("form", HEXADECIMAL)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_hexadecimal_digits_is_found(secret: str, form: str) -> None:
    assert scanner.find(HEXADECIMAL[form](SECRETS[secret]).encode())


def test_a_secret_in_one_encoding_inside_another_is_found() -> None:
    assert scanner.find(base64.b64encode(TOKEN.hex().encode()))
    assert scanner.find(wrapped(base64.b64encode(TOKEN).hex(), 60).encode())


@pytest.mark.parametrize(
    "key",
    [KEY, rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()],
    ids=["elliptic curve", "RSA", "Ed25519"],
)
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_without_its_armour_is_found_to_its_end(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, form: PrivateFormat
) -> None:
    if form is PrivateFormat.TraditionalOpenSSL and not isinstance(key, rsa.RSAPrivateKey):
        form = PrivateFormat.PKCS8
    der = key.private_bytes(Encoding.DER, form, NoEncryption())
    for text in (der, base64.b64encode(der), der.hex().encode(), wrapped(base64.b64encode(der).decode(), 64).encode()):
        assert any(
            (hit.start, hit.end) == (0, len(text.rstrip(b"="))) or hit.end >= len(text) - 2 for hit in scanner.find(text)
        )


def test_a_key_line_may_begin_like_an_operator_or_comment() -> None:
    body = b"".join(hashlib.sha512(bytes([0, number])).digest() for number in range(19))
    text = base64.b64encode((b"\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01\x00" + body)[: 4 + 0x4A4]).decode()
    begins = [found.start() for found in re.finditer(r"[+/]{2}", text)]
    assert begins
    for at in begins:
        (hit,) = scanner.find(f"{text[:at]}\n{text[at:]}".encode())
        assert (hit.start, hit.end) == (0, 1 + len(text.rstrip("=")))


def test_only_the_secret_is_pointed_at_and_not_what_stands_around_it() -> None:
    encoded = base64.b64encode(TOKEN).decode()
    text = f'first = "harmless"\nkeys = [\n "{encoded[:20]}",\n "{encoded[20:]}",\n]\nlast = 1\n'.encode()
    (hit,) = scanner.find(text)
    assert text[hit.start : hit.end].startswith(encoded[:20].encode())
    assert encoded[-4:-2].encode() in text[hit.start : hit.end]
    assert hit.end < text.index(b"last")


def test_public_keys_digests_and_ordinary_encodings_are_no_secrets() -> None:
    public = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digests = "\n".join(hashlib.sha256(bytes([number])).hexdigest() + f"  file-{number}" for number in range(200))
    words = base64.b64encode(b"an ordinary paragraph, encoded for no good reason at all. " * 20).decode()
    image = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + hashlib.sha512(b"x").digest() * 50).decode()
    vectors = ", ".join(f"0x{byte:02x}" for byte in range(256))
    for text in (base64.b64encode(public).decode(), public.hex(), digests, wrapped(words, 64), image, vectors):
        assert scanner.find(text.encode()) == ()


def test_the_standard_library_holds_no_encoded_secret() -> None:
    """A few hundred real files: next to nothing in them looks like one."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    assert len(files) > 100
    assert [file.name for file in files if scanner.find(file.read_bytes())] == []
