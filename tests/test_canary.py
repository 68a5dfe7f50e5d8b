"""Canaries: every usual encoding of a token is found in every kind of output, and nothing else is one."""

from __future__ import annotations

import base64
import codecs
import gzip
import subprocess
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from msgspec.structs import replace

from gatewright import canary
from gatewright.canary import canary_spans, new_canary
from gatewright.models.records import without_secrets
from gatewright.secrets.documents import redact_document, redacted_places
from gatewright.secrets.redaction import read_record, record_of, redact_output
from gatewright.secrets.scanner import SecretScanner
from tests.evidence.recorded_runs import make_success
from tests.reason_codes import ROOT

Encode = Callable[[str], bytes]


def behind(before: bytes, encode: Callable[[bytes], bytes], token: str, form: str = "ascii") -> bytes:
    """Encode the token behind other bytes, which decide its alignment."""
    return encode(before + token.encode(form))


ENCODINGS: Mapping[str, Encode] = {
    "plain": str.encode,
    "upper case": lambda token: token.upper().encode(),
    **{f"base64 {n}": partial(behind, b"xyz"[:n], base64.b64encode) for n in range(3)},
    **{f"base64 of UTF-16 {n}": partial(behind, b"xyz"[:n], base64.b64encode, form="utf-16-le") for n in range(3)},
    "base64 in lines": lambda token: base64.encodebytes(b"z" * 70 + token.encode()),
    "base64 in a string": lambda token: base64.encodebytes(b"z" * 70 + token.encode()).replace(b"\n", b"\\n"),
    "base64 for URLs": lambda token: base64.urlsafe_b64encode(b"\xff\xfe" + token.encode()),
    **{f"base32 {n}": partial(behind, b"vwxyz"[:n], base64.b32encode) for n in range(5)},
    "hex": lambda token: token.encode().hex().encode(),
    "upper hex": lambda token: token.encode().hex().upper().encode(),
    "hex with colons": lambda token: token.encode().hex(":").encode(),
    "list of numbers": lambda token: ", ".join(map(hex, token.encode())).encode(),
    "URL": lambda token: "".join(f"%{byte:02X}" for byte in token.encode()).encode(),
    "one escape": lambda token: token.replace("c", "%63", 1).encode(),
    "reversed": lambda token: token[::-1].encode(),
    "rot13": lambda token: codecs.encode(token, "rot13").encode(),
    "rot13 reversed": lambda token: codecs.encode(token, "rot13")[::-1].encode(),
    "gzip and base64": lambda token: base64.b64encode(gzip.compress(token.encode())),
    "gzip and base64 in lines": lambda token: base64.encodebytes(gzip.compress(bytes(range(256)) * 9 + token.encode())),
    "lines": lambda token: "\n".join(token[at : at + 7] for at in range(0, len(token), 7)).encode(),
    "separators": lambda token: " - ".join(token).encode(),
    "JSON escapes": lambda token: "".join(f"\\u{ord(char):04x}" for char in token).encode(),
    "byte escapes": lambda token: "".join(f"\\x{ord(char):02x}" for char in token).encode(),
    "UTF-16": lambda token: token.encode("utf-16"),
    "UTF-16 big endian": lambda token: token.encode("utf-16-be"),
}
SCANNER = SecretScanner()


def in_report(data: bytes) -> bool:
    report = make_success().run.tests
    assert report is not None
    text = data.decode("latin-1")
    redacted, _ = redact_document(
        replace(report, commands=(replace(report.commands[0], name=text), *report.commands[1:])), SCANNER
    )
    return "canary" in {rule for _, rule in redacted_places(redacted)}


#: Whether the token is found in a kind of output that holds these bytes.
OUTPUTS: Mapping[str, Callable[[bytes], bool]] = {
    "content of a file": lambda data: "canary" in {hit.rule for hit in SCANNER.find(b"VALUE = 1\n" + data + b"\n")},
    "log": lambda data: (
        ("stdout", "canary") in read_record(record_of(redact_output("stdout", b"12 passed\n" + data, SCANNER).redactions))
    ),
    "report": in_report,
    "reply of a model": lambda data: (
        "canary" in {each.rule for each in without_secrets("reply", b"Done. " + data, SCANNER).redactions}
    ),
    "request to a model": lambda data: bool(canary_spans(b'{"messages":[{"content":"' + data + b'"}]}')),
    "address": lambda data: bool(canary_spans(b"/simple/" + data + b"/")),
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_encoding_is_found_in_each_output(encoding: str, output: str) -> None:
    assert OUTPUTS[output](ENCODINGS[encoding](new_canary()))


def test_of_nested_encodings_the_scanner_finds_two() -> None:
    assert {hit.rule for hit in SCANNER.find(base64.b64encode(base64.b64encode(new_canary().encode())))} == {"canary"}


def test_no_output_without_a_token_is_found() -> None:
    """The honest form of the tests above: the same bytes of a word that is no token."""
    word = new_canary()[:-1] + "0"
    for encode in ENCODINGS.values():
        assert not [name for name, finds in OUTPUTS.items() if finds(encode(word))]


def test_a_token_is_random_and_long() -> None:
    tokens = {new_canary() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {40}


@pytest.mark.parametrize("at", range(40))
def test_one_changed_character_makes_it_no_token(at: int) -> None:
    token = new_canary()
    other = token[:at] + ("a" if token[at] != "a" else "b") + token[at + 1 :]
    assert canary_spans(token.encode())
    assert not canary_spans(other.encode())


def test_a_plain_token_is_removed_and_the_rest_stays() -> None:
    token = new_canary()
    redacted = redact_output("stdout", f"a {token} b".encode(), SCANNER)
    assert redacted.data == b"a [redacted:canary] b"


def test_of_another_form_nothing_stays() -> None:
    data = b"a " + ENCODINGS["base64 1"](new_canary())
    assert redact_output("stdout", data, SCANNER).data == b"[redacted:canary]"


def test_a_secret_around_a_token_does_not_hide_it() -> None:
    data = f"password = '{new_canary()}'".encode()
    assert {hit.rule for hit in SCANNER.find(data)} == {"canary"}


def test_a_beginning_before_a_token_does_not_hide_it() -> None:
    assert canary_spans(b"gwcanaryab" + new_canary().encode())
    assert canary_spans(b"gwcanary" * 50 + ENCODINGS["base64 0"](new_canary()))


def test_a_text_full_of_beginnings_is_taken_for_a_hiding_place() -> None:
    assert canary_spans(b"gwcanary " * (canary._MOST_CANDIDATES + 1))
    assert not canary_spans(b"gwcanary " * 100)


def test_what_inflates_without_end_is_read_to_a_limit() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert not canary_spans(bomb)
    assert not canary_spans(base64.b64encode(bomb))
    assert not canary_spans(b"H4sIAAAAAAAA" * 10_000)


def test_a_record_that_is_none_has_no_redactions() -> None:
    assert read_record(b"{") == ()
    assert read_record(b"[" * 100_000) == ()


def test_no_patch_of_this_repository_holds_a_token() -> None:
    history = subprocess.run(
        ("git", "log", "-p", "-200", "--format=%H", "--no-color"), cwd=ROOT, capture_output=True, check=True
    )
    patches = history.stdout.split(b"\ndiff --git ")
    assert not [patch[:200] for patch in patches if canary_spans(patch)]
