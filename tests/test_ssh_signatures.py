"""SSH signatures: what OpenSSH's own program makes is taken, what is made here is taken by it, and nothing else is."""

from __future__ import annotations

import base64
import hashlib
import struct
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatewright.errors import GatewrightError
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh, signer_of, verify_ssh
from tests.openssh_account import needs_account

SPACE, MESSAGE = "gatewright-approval-v1", b'{"verdict":"approve"}'
KINDS = (("ed25519", "256"), ("ecdsa", "256"), ("ecdsa", "384"), ("ecdsa", "521"), ("rsa", "2048"))
SECRET = Ed25519PrivateKey.generate()


def made_by_openssh(folder: Path, kind: str, bits: str) -> tuple[str, str]:
    """A public key in one line, and its signature of the message."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", "", "-C", "", "-f", key], check=True)
    argv = ["ssh-keygen", "-Y", "sign", "-q", "-n", SPACE, "-f", str(key)]
    signed = subprocess.run(argv, input=MESSAGE, capture_output=True, check=True)
    return key.with_suffix(".pub").read_text().strip(), signed.stdout.decode()


def refused(key: str, message: bytes, armoured: str, namespace: str = SPACE) -> str:
    with pytest.raises(GatewrightError) as refusal:
        verify_ssh(key, namespace, message, armoured)
    return refusal.value.reason


@needs_account
@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_what_ssh_keygen_signs_is_taken_and_nothing_else_under_it(kind: str, bits: str, tmp_path: Path) -> None:
    key, armoured = made_by_openssh(tmp_path, kind, bits)
    verify_ssh(key, SPACE, MESSAGE, armoured)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, check=True, text=True)
    assert fingerprint(key) == signer_of(armoured) == listed.stdout.split()[1]
    assert refused(key, MESSAGE + b" ", armoured) == "signature_invalid"
    assert refused(key, MESSAGE, armoured, "file") == "signature_invalid"
    assert refused(public_line(SECRET), MESSAGE, armoured) == "signature_invalid"


@needs_account
def test_ssh_keygen_takes_what_a_key_in_memory_has_signed(tmp_path: Path) -> None:
    (tmp_path / "signature").write_text(sign_ssh(SECRET, SPACE, MESSAGE))
    (tmp_path / "allowed").write_text(f"ana {public_line(SECRET)}\n")
    files = {"-f": tmp_path / "allowed", "-s": tmp_path / "signature"}
    named = [word for option, path in files.items() for word in (option, str(path))]
    argv = ["ssh-keygen", "-Y", "verify", *named, "-I", "ana", "-n", SPACE]
    agreed = subprocess.run(argv, input=MESSAGE, capture_output=True, check=False)
    assert agreed.returncode == 0, agreed.stderr
    verify_ssh(public_line(SECRET), SPACE, MESSAGE, sign_ssh(SECRET, SPACE, MESSAGE))


def test_every_changed_byte_of_a_signature_is_noticed() -> None:
    lines = sign_ssh(SECRET, SPACE, MESSAGE).splitlines()
    raw = base64.b64decode("".join(lines[1:-1]))
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        armoured = "\n".join([lines[0], base64.b64encode(changed).decode(), lines[-1]])
        assert refused(public_line(SECRET), MESSAGE, armoured) in {"signature_invalid", "bad_ssh_signature"}


@pytest.mark.parametrize("cut", range(0, 160, 8))
def test_a_signature_that_is_cut_short_is_none(cut: int) -> None:
    lines = sign_ssh(SECRET, SPACE, MESSAGE).splitlines()
    raw = base64.b64decode("".join(lines[1:-1]))[:cut]
    armoured = "\n".join([lines[0], base64.b64encode(raw).decode(), lines[-1]])
    assert refused(public_line(SECRET), MESSAGE, armoured) == "bad_ssh_signature"


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN SSH SIGNATURE-----\n\u00e4\n-----END SSH SIGNATURE-----", "A" * 20_000])
def test_what_is_no_signature_is_malformed(text: str) -> None:
    assert refused(public_line(SECRET), MESSAGE, text) == "bad_ssh_signature"


@pytest.mark.parametrize(
    "key", ["", "ssh-ed25519", "ssh-ed25519 !", "ssh-dss AAAAB3NzaC1kc3M=", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA"]
)
def test_what_is_no_public_key_that_can_sign_is_malformed(key: str) -> None:
    assert refused(key, MESSAGE, sign_ssh(SECRET, SPACE, MESSAGE)) == "bad_ssh_key"


def text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def of_a_token(kind: str, flags: int) -> tuple[str, str]:
    """A key and a signature as a hardware token makes them; ``flags`` state whether it was touched."""
    application = b"ssh:"
    signed = b"SSHSIG" + text(SPACE.encode()) + text(b"") + text(b"sha512") + text(hashlib.sha512(MESSAGE).digest())
    tail = bytes([flags]) + struct.pack(">I", 7)
    data = hashlib.sha256(application).digest() + tail + hashlib.sha256(signed).digest()
    if kind == "sk-ssh-ed25519@openssh.com":
        blob = text(kind.encode()) + text(SECRET.public_key().public_bytes_raw()) + text(application)
        value = SECRET.sign(data)
    else:
        secret = ec.generate_private_key(ec.SECP256R1())
        point = secret.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        blob = text(kind.encode()) + text(b"nistp256") + text(point) + text(application)
        pair = decode_dss_signature(secret.sign(data, ec.ECDSA(SHA256())))
        value = b"".join(text(each.to_bytes(33, "big")) for each in pair)
    signature = text(kind.encode()) + text(value) + tail
    whole = b"SSHSIG" + struct.pack(">I", 1) + text(blob) + text(SPACE.encode()) + text(b"") + text(b"sha512") + text(signature)
    armoured = f"-----BEGIN SSH SIGNATURE-----\n{base64.b64encode(whole).decode()}\n-----END SSH SIGNATURE-----"
    return f"{kind} {base64.b64encode(blob).decode()}", armoured


@pytest.mark.parametrize("kind", ["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"])
def test_a_hardware_token_signs_only_what_a_person_has_touched_it_for(kind: str) -> None:
    key, armoured = of_a_token(kind, 0x01)
    verify_ssh(key, SPACE, MESSAGE, armoured)
    assert refused(key, MESSAGE + b" ", armoured) == "signature_invalid"
    untouched, armoured = of_a_token(kind, 0x00)
    assert refused(untouched, MESSAGE, armoured) == "signature_invalid"
