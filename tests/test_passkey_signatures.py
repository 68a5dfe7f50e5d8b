"""Signatures of passkeys: OpenSSH's own program takes them, and none of another page, purpose, person or kind of key counts."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatewright.errors import GatewrightError, MalformedError
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh, signer_of, verify_ssh
from gatewright.ssh_signatures.passkeys import (
    PasskeyAssertion,
    armoured_assertion,
    challenge_of,
    passkey_line,
    relying_party_of,
)
from gatewright.ssh_signatures.wire import armour, text
from tests.openssh_account import needs_account
from tests.passkeys import ORIGIN, PARTY, RECOGNISED, SoftwarePasskey

SPACE, MESSAGE = "gatewright-approval-v1", b'{"verdict":"approve"}'
PASSKEY = SoftwarePasskey()


def refused(
    armoured: str, message: bytes = MESSAGE, *, key: str = "", space: str = SPACE, origins: tuple[str, ...] = (ORIGIN,)
) -> str:
    with pytest.raises(GatewrightError) as refusal:
        verify_ssh(key or PASSKEY.line, space, message, armoured, origins)
    return refusal.value.reason


@needs_account
@pytest.mark.parametrize("extensions", [b"", b"\xa1\x63abc\x01"])
def test_ssh_keygen_takes_what_a_passkey_has_signed(tmp_path: Path, extensions: bytes) -> None:
    flags = RECOGNISED | (0x80 if extensions else 0) | 0x18  # kept in several places, as most passkeys are
    armoured = PASSKEY.sign(SPACE, MESSAGE, flags=flags, counter=7, extensions=extensions)
    verify_ssh(PASSKEY.line, SPACE, MESSAGE, armoured, [ORIGIN])
    (tmp_path / "signature").write_text(armoured)
    (tmp_path / "allowed").write_text(f"ana {PASSKEY.line}\n")
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "allowed"), "-s", str(tmp_path / "signature")]
    argv += ["-I", "ana", "-n", SPACE]
    agreed = subprocess.run(argv, input=MESSAGE, capture_output=True, check=False)
    assert agreed.returncode == 0, agreed.stderr
    assert subprocess.run(argv, input=MESSAGE + b" ", capture_output=True, check=False).returncode != 0
    (tmp_path / "key.pub").write_text(PASSKEY.line)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, check=True, text=True)
    assert fingerprint(PASSKEY.line) == signer_of(armoured) == listed.stdout.split()[1]


def test_it_counts_for_one_message_one_purpose_and_one_key() -> None:
    armoured = PASSKEY.sign(SPACE, MESSAGE)
    verify_ssh(PASSKEY.line, SPACE, MESSAGE, armoured, ["https://other.example.org", ORIGIN])
    assert refused(armoured, MESSAGE + b" ") == "signature_invalid"
    assert refused(armoured, space="gatewright-grant-v1") == "signature_invalid"
    assert refused(armoured, key=SoftwarePasskey().line) == "signature_invalid"
    elsewhere = passkey_line(_public(PASSKEY), "example.org")  # the same point, for another relying party
    assert refused(armoured, key=elsewhere) == "signature_invalid"


def _public(passkey: SoftwarePasskey) -> bytes:
    return passkey.secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


Forged = Callable[[], str]
CHALLENGE = challenge_of(SPACE, MESSAGE)


def _answer(**fields: object) -> str:
    return PASSKEY.sign(SPACE, MESSAGE, **fields)


def _reframed(before: bytes, after: bytes) -> str:
    """What the browser wrote is changed before it is signed."""
    honest = PASSKEY.asserted(CHALLENGE)
    client_data = honest.client_data.replace(before, after)
    assert client_data != honest.client_data
    data = honest.authenticator_data + hashlib.sha256(client_data).digest()
    signature = PASSKEY.secret.sign(data, ec.ECDSA(SHA256()))
    return armoured_assertion(PASSKEY.line, SPACE, PasskeyAssertion(client_data, honest.authenticator_data, signature))


FORGED: dict[str, tuple[Forged, str]] = {
    "a page of another origin": (lambda: _answer(origin="https://evil.example.org"), "passkey_origin_differs"),
    "a page without TLS": (lambda: _answer(origin="http://console.example.org"), "passkey_origin_differs"),
    "another port": (lambda: _answer(origin=f"{ORIGIN}:8443"), "passkey_origin_differs"),
    "an origin that only begins so": (lambda: _answer(origin=f"{ORIGIN}.evil.org"), "passkey_origin_differs"),
    "no origin": (lambda: _answer(origin=""), "passkey_origin_differs"),
    "the person was not recognised": (lambda: _answer(flags=0x01), "passkey_person_unverified"),
    "nobody was there": (lambda: _answer(flags=0x04), "signature_invalid"),
    "a new key in it": (lambda: _answer(flags=RECOGNISED | 0x40), "signature_invalid"),
    "extensions that are not there": (lambda: _answer(flags=RECOGNISED | 0x80), "signature_invalid"),
    "extensions that no flag announces": (lambda: _answer(extensions=b"\xa0"), "signature_invalid"),
    "a key that is made": (lambda: _answer(type="webauthn.create"), "signature_invalid"),
    "another challenge": (lambda: _answer(challenge="AAAA"), "signature_invalid"),
    "a frame in a page of another site": (lambda: _answer(crossOrigin=True), "signature_invalid"),
    "members in another order": (
        lambda: _reframed(b'{"type":"webauthn.get",', b'{"x":1,"type":"webauthn.get",'),
        "signature_invalid",
    ),
    "a blank between": (lambda: _reframed(b'"type":', b'"type": '), "signature_invalid"),
    "no end": (lambda: _reframed(b',"crossOrigin":false}', b""), "signature_invalid"),
}


@pytest.mark.parametrize(("forged", "code"), FORGED.values(), ids=FORGED)
def test_a_passkey_signature_of_another_person_or_page_is_refused(forged: Forged, code: str) -> None:
    assert refused(forged()) == code


@pytest.mark.parametrize("further", [b"}", b',"crossOrigin":false}', b',"crossOrigin":false,"later":"x"}'])
def test_what_browsers_write_after_the_origin_is_taken(further: bytes) -> None:
    if further == b',"crossOrigin":false}':
        verify_ssh(PASSKEY.line, SPACE, MESSAGE, PASSKEY.sign(SPACE, MESSAGE), [ORIGIN])
        return
    verify_ssh(PASSKEY.line, SPACE, MESSAGE, _reframed(b',"crossOrigin":false}', further), [ORIGIN])


def test_kinds_of_keys_do_not_stand_in_for_each_other() -> None:
    """A passkey is no key of a token for ssh, and no other key signs on a page."""
    by_passkey, secret = PASSKEY.sign(SPACE, MESSAGE), Ed25519PrivateKey.generate()
    assert refused(by_passkey, origins=()) == "signature_invalid"  # the roster has it as a key for ssh
    by_key = sign_ssh(secret, SPACE, MESSAGE)
    assert refused(by_key, key=public_line(secret)) == "signature_invalid"  # the roster has it as a passkey
    assert refused(_as_token(), key=PASSKEY.line) == "signature_invalid"
    verify_ssh(PASSKEY.line, SPACE, MESSAGE, _as_token())


def _as_token() -> str:
    """The same key, asked by ssh instead of a page."""
    flags, counter = b"\x05", bytes(4)
    data = hashlib.sha256(PARTY.encode()).digest() + flags + counter + hashlib.sha256(CHALLENGE).digest()
    pair = decode_dss_signature(PASSKEY.secret.sign(data, ec.ECDSA(SHA256())))
    numbers = b"".join(text(each.to_bytes(33, "big")) for each in pair)
    blob = base64.b64decode(PASSKEY.line.split()[1])
    return armour(
        blob, SPACE.encode(), b"sha256", text(b"sk-ecdsa-sha2-nistp256@openssh.com") + text(numbers) + flags + counter
    )


def test_every_changed_byte_is_noticed() -> None:
    lines = PASSKEY.sign(SPACE, MESSAGE).splitlines()
    raw = base64.b64decode("".join(lines[1:-1]))
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        armoured = "\n".join([lines[0], base64.b64encode(changed).decode(), lines[-1]])
        assert refused(armoured) in {
            "signature_invalid",
            "bad_ssh_signature",
            "passkey_origin_differs",
            "passkey_person_unverified",
        }


@pytest.mark.parametrize("cut", range(0, 540, 20))
def test_a_signature_that_is_cut_short_is_none(cut: int) -> None:
    lines = PASSKEY.sign(SPACE, MESSAGE).splitlines()
    raw = base64.b64decode("".join(lines[1:-1]))[:cut]
    armoured = "\n".join([lines[0], base64.b64encode(raw).decode(), lines[-1]])
    assert refused(armoured) == "bad_ssh_signature"


def test_parts_of_no_assertion_are_refused_before_they_are_sent() -> None:
    honest = PASSKEY.asserted(CHALLENGE)
    wrong = [
        PasskeyAssertion(honest.client_data, honest.authenticator_data[:36], honest.signature),
        PasskeyAssertion(honest.client_data, bytes(32) + honest.authenticator_data[32:], honest.signature),
        PasskeyAssertion(honest.client_data, honest.authenticator_data, b"\x30\x00"),
    ]
    for assertion in wrong:
        with pytest.raises(MalformedError, match="not an SSH signature"):
            armoured_assertion(PASSKEY.line, SPACE, assertion)
    for key in (public_line(Ed25519PrivateKey.generate()), "", "ssh-rsa", f"{PASSKEY.line[:60]}"):
        with pytest.raises(MalformedError, match="not the key of a passkey"):
            armoured_assertion(key, SPACE, honest)


def test_only_keys_of_the_right_curve_become_passkeys() -> None:
    assert relying_party_of(PASSKEY.line) == PARTY
    assert relying_party_of(passkey_line(_public(PASSKEY), "ssh:")) == ""
    wrong = ec.generate_private_key(ec.SECP384R1()).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for public in (wrong, b"", b"nonsense"):
        with pytest.raises(MalformedError, match="not the public key of a passkey"):
            passkey_line(public, PARTY)
