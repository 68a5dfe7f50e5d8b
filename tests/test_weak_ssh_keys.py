"""Keys that others can forge for are refused where the roster is read, with whose they are and what to do."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatewright.errors import ConfigurationError, GatewrightError, MalformedError
from gatewright.services.gatekeeper.policies.approval_policy import read_roster
from gatewright.services.gatekeeper.policies.check import main
from gatewright.ssh_signatures import check_key, fingerprint, public_line, verify_ssh
from gatewright.ssh_signatures.wire import armour, text
from tests.attacks.people import LANDING, policies_with, roster
from tests.command_line import invoke

#: y of the points of small order on the curve of ed25519, and other spellings of them.
_P = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = (0, 1, _P - 1, _P, _P + 1, _ORDER_8, _P - _ORDER_8)


def line(kind: str, *fields: bytes) -> str:
    blob = b"".join(struct.pack(">I", len(each)) + each for each in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(blob).decode()}"


def number(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def rsa_line(bits: int, exponent: int = 65537) -> str:
    modulus = (
        (1 << (bits - 1)) + 1 if exponent != 65537 else rsa.generate_private_key(65537, bits).public_key().public_numbers().n
    )
    return line("ssh-rsa", number(exponent), number(modulus))


def ed25519_line(y: int, sign: int = 0) -> str:
    return line("ssh-ed25519", (y | sign << 255).to_bytes(32, "little"))


def ecdsa_line(kind: str = "nistp256", curve: str = "nistp256", *, spoiled: bool = False) -> str:
    point = bytearray(
        ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    )
    point[-1] ^= spoiled
    return line(f"ecdsa-sha2-{kind}", curve.encode(), bytes(point))


WEAK: dict[str, tuple[Callable[[], str], str]] = {
    "rsa of 1024 bits": (lambda: rsa_line(1024), "1024 bits"),
    "rsa of 2040 bits": (lambda: line("ssh-rsa", number(65537), number((1 << 2039) + 1)), "2040 bits"),
    "rsa whose signatures are the message": (lambda: rsa_line(2048, 1), "exponent"),
    "rsa with an even exponent": (lambda: rsa_line(2048, 2), "exponent"),
    "rsa with an even modulus": (lambda: line("ssh-rsa", number(65537), number(1 << 2047)), "modulus"),
    "rsa with something behind it": (lambda: line("ssh-rsa", number(65537), number((1 << 2047) + 1), b"x"), "malformed"),
    "dsa": (lambda: line("ssh-dss", *[number(1 << 1023)] * 4), "ssh-dss"),
    "ecdsa off the curve": (lambda: ecdsa_line(spoiled=True), "curve"),
    "ecdsa of another curve": (lambda: ecdsa_line("nistp384"), "curve"),
    "ed25519 that is cut short": (lambda: line("ssh-ed25519", b"\x05" * 31), "malformed"),
    "a certificate": (lambda: line("ssh-ed25519-cert-v01@openssh.com", b"\x05" * 32), "certificate"),
}


@pytest.mark.parametrize(("make", "words"), WEAK.values(), ids=WEAK.keys())
def test_the_roster_is_refused_with_name_and_remedy(tmp_path: Path, make: Callable[[], str], words: str) -> None:
    people = roster()
    known = people["people"]
    assert isinstance(known, list)
    known[1]["keys"] = [{"key": make()}]
    with pytest.raises(ConfigurationError) as refusal:
        read_roster(tmp_path / "approvers.json", json.dumps(people).encode())
    assert refusal.value.reason == "approvers_unusable"
    assert "ben" in refusal.value.message
    assert words in refusal.value.message
    assert "ssh-keygen -t ed25519" in refusal.value.message


@pytest.mark.parametrize("y", SMALL_ORDER)
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_of_small_order_is_refused(y: int, sign: int) -> None:
    """Any message has a signature under it, without a secret."""
    with pytest.raises(MalformedError, match="small order"):
        check_key(ed25519_line(y, sign))
    with pytest.raises(MalformedError, match="small order"):
        check_key(line("sk-ssh-ed25519@openssh.com", (y | sign << 255).to_bytes(32, "little"), b"ssh:"))


def test_a_signature_without_a_secret_does_not_count() -> None:
    key = ed25519_line(1)
    blob = base64.b64decode(key.split()[1])
    forged = armour(blob, b"space", b"sha512", text(b"ssh-ed25519") + text((1).to_bytes(32, "little") + bytes(32)))
    with pytest.raises(GatewrightError):
        verify_ssh(key, "space", b"any message", forged)


def test_strong_keys_and_revoked_weak_ones_stay(tmp_path: Path) -> None:
    strong = [
        public_line(Ed25519PrivateKey.generate()),
        ecdsa_line(),
        rsa_line(2048),
        line("ssh-rsa", number(35), number((1 << 3071) + 1)),
    ]
    for each in strong:
        check_key(each)
    revoked = {"key": rsa_line(1024), "revoked_at": "2020-01-01T00:00:00+00:00"}
    people = {"version": "1", "people": [{"name": "ana", "keys": [{"key": strong[0]}, revoked]}]}
    read = read_roster(tmp_path / "approvers.json", json.dumps(people).encode())
    assert len(read.people[0].keys) == 2


def test_doctor_and_policy_explain_name_the_weak_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = rsa_line(1024)
    people = roster()
    known = people["people"]
    assert isinstance(known, list)
    known[0]["keys"].append({"key": weak})
    folder = policies_with(tmp_path / "policies", LANDING, people=people)
    monkeypatch.setattr("sys.argv", ["check", str(folder)])
    assert main() == 1
    assert fingerprint(weak) in capsys.readouterr().out


@pytest.mark.parametrize("bits", ["1024", "2048"])
def test_the_line_of_a_weak_key_is_not_offered(tmp_path: Path, bits: str) -> None:
    public = tmp_path / "key.pub"
    public.write_text(rsa_line(int(bits)) + " ana\n")
    result = invoke(["approvals", "key", str(public)])
    assert (result.returncode == 0) == (bits == "2048")
