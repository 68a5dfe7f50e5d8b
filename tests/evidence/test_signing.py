"""Envelopes: what we sign others can check, what others spell differently we refuse."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError as LibraryVerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer, open_envelope

ORDER = 2**252 + 27742317777372353535851937790883648493
PAYLOAD = b'{"_type":"https://in-toto.io/Statement/v1"}'


def canonical(envelope: Any) -> bytes:
    return json.dumps(envelope, separators=(",", ":"), sort_keys=True).encode()


def test_securesystemslib_alone_verifies_a_bundle(sealed_bundles: dict[str, Path], private_key: keys.PrivateKey) -> None:
    bundle = sealed_bundles["success"]
    public = SSlibKey.from_crypto(load_pem_public_key(private_key.public.pem()))
    envelope = Envelope.from_dict(json.loads((bundle / "manifest.dsse.json").read_bytes()))
    assert envelope.verify([public], 1) == {public.keyid: public}
    assert envelope.payload_type == "application/vnd.in-toto+json"
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    digests = {subject["name"]: subject["digest"] for subject in statement["subject"]}
    for path in ("manifest.json", "patch.diff"):
        assert digests[path] == {"sha256": hashlib.sha256((bundle / path).read_bytes()).hexdigest()}
    assert digests["refs/heads/gatewright/run-a31d0eeaa8061bb92728"] == {"gitCommit": "4" * 40}
    assert digests["tree"] == {"gitTree": "3" * 40}
    assert statement["predicate"]["verificationResult"] == "PASSED"
    assert statement["predicate"]["verifiedLevels"] == [
        "GATEWRIGHT_DIFF_GATE",
        "GATEWRIGHT_POLICY_GATE",
        "GATEWRIGHT_REVIEW_GATE",
        "GATEWRIGHT_TESTS_GATE",
    ]


@pytest.mark.parametrize("name", ["failed", "unplanned", "aborted"])
def test_the_statement_about_a_failed_run_reports_the_failure(sealed_bundles: dict[str, Path], name: str) -> None:
    envelope = json.loads((sealed_bundles[name] / "manifest.dsse.json").read_bytes())
    predicate = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    assert (predicate["verificationResult"], predicate["verifiedLevels"]) == ("FAILED", ["FAILED"])


def test_a_stranger_is_refused_by_securesystemslib_too(sealed_bundles: dict[str, Path]) -> None:
    envelope = Envelope.from_dict(json.loads((sealed_bundles["success"] / "manifest.dsse.json").read_bytes()))
    with pytest.raises(LibraryVerificationError):
        envelope.verify([CryptoSigner.generate_ed25519().public_key], 1)


def test_the_same_payload_has_one_envelope(signer: Signer, private_key: keys.PrivateKey) -> None:
    assert signer.envelope(PAYLOAD) == Signer(private_key).envelope(PAYLOAD)
    assert open_envelope(signer.envelope(PAYLOAD), [private_key.public]) == (PAYLOAD, private_key.public)


def test_without_a_trusted_key_nothing_opens(signer: Signer) -> None:
    with pytest.raises(VerificationError) as caught:
        open_envelope(signer.envelope(PAYLOAD), [])
    assert caught.value.reason == "no_trusted_key"


def test_the_right_one_of_several_keys_is_found(signer: Signer, private_key: keys.PrivateKey, tmp_path: Path) -> None:
    others = [keys.create(tmp_path / f"{number}.pem").public for number in range(3)]
    assert open_envelope(signer.envelope(PAYLOAD), [*others, private_key.public])[1] == private_key.public
    with pytest.raises(VerificationError) as caught:
        open_envelope(signer.envelope(PAYLOAD), others)
    assert caught.value.reason == "untrusted_key"


def test_a_stranger_who_takes_our_key_id_is_found_out(signer: Signer, private_key: keys.PrivateKey, tmp_path: Path) -> None:
    forged = json.loads(Signer(keys.create(tmp_path / "stranger.pem")).envelope(PAYLOAD))
    forged["signatures"][0]["keyid"] = private_key.public.key_id
    with pytest.raises(VerificationError) as caught:
        open_envelope(canonical(forged), [private_key.public])
    assert caught.value.reason == "bad_signature"


def other_payload(envelope: dict[str, Any]) -> None:
    envelope["payload"] = base64.b64encode(PAYLOAD + b" ").decode()


def same_number_in_another_form(envelope: dict[str, Any]) -> None:
    """S and S + L are the same point: a verifier that does not bound S would take both."""
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    envelope["signatures"][0]["sig"] = base64.b64encode(signature[:32] + scalar.to_bytes(32, "little")).decode()


def zero_signature(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()


def short_signature(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = base64.b64encode(b"x").decode()


def empty_signature(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = ""


@pytest.mark.parametrize(
    "forge", [other_payload, same_number_in_another_form, zero_signature, short_signature, empty_signature]
)
def test_a_signature_over_something_else_is_refused(
    signer: Signer, private_key: keys.PrivateKey, forge: Callable[[dict[str, Any]], None]
) -> None:
    envelope = json.loads(signer.envelope(PAYLOAD))
    forge(envelope)
    with pytest.raises(VerificationError) as caught:
        open_envelope(canonical(envelope), [private_key.public])
    assert caught.value.reason == "bad_signature"


def hidden_bits(envelope: dict[str, Any]) -> None:
    """The last digit before the padding has bits that no byte uses."""
    text = envelope["signatures"][0]["sig"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    envelope["signatures"][0]["sig"] = text[:-3] + alphabet[alphabet.index(text[-3]) + 1] + text[-2:]


def url_safe(envelope: dict[str, Any]) -> None:
    envelope["payload"] = base64.urlsafe_b64encode(b"\xff\xff\xff").decode()


def other_type(envelope: dict[str, Any]) -> None:
    envelope["payloadType"] = "text/plain"


def two_signatures(envelope: dict[str, Any]) -> None:
    envelope["signatures"].append({"keyid": "other", "sig": "AAAA"})


def no_signature(envelope: dict[str, Any]) -> None:
    envelope["signatures"] = []


def more_fields(envelope: dict[str, Any]) -> None:
    envelope["comment"] = "signed by the boss"


def more_fields_inside(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["cert"] = "x"


@pytest.mark.parametrize(
    "change", [hidden_bits, url_safe, other_type, two_signatures, no_signature, more_fields, more_fields_inside]
)
def test_another_spelling_of_an_envelope_is_refused(
    signer: Signer, private_key: keys.PrivateKey, change: Callable[[dict[str, Any]], None]
) -> None:
    envelope = json.loads(signer.envelope(PAYLOAD))
    change(envelope)
    with pytest.raises(MalformedError) as caught:
        open_envelope(canonical(envelope), [private_key.public])
    assert caught.value.reason == "bad_envelope"


@pytest.mark.parametrize("spoil", [b"%b ", b" %b", b"%b\n", b"[%b]", b"%.20b", b"\xff%b", b'{"a":1,%b', b"%.0b"])
def test_an_envelope_in_other_bytes_is_refused(signer: Signer, private_key: keys.PrivateKey, spoil: bytes) -> None:
    with pytest.raises(MalformedError):
        open_envelope(spoil % signer.envelope(PAYLOAD), [private_key.public])


def test_no_byte_of_an_envelope_can_change(signer: Signer, private_key: keys.PrivateKey) -> None:
    envelope = signer.envelope(PAYLOAD)
    for at in range(len(envelope)):
        for flipped in (envelope[at] ^ 1, envelope[at] ^ 0x20, envelope[at] ^ 0x80):
            changed = envelope[:at] + bytes([flipped]) + envelope[at + 1 :]
            with pytest.raises(GatewrightError):
                open_envelope(changed, [private_key.public])
