"""What counts as a secret, with the patterns alone and with the library's catalogue beside them."""

from __future__ import annotations

import time

import pytest

from gatewright.secrets.scanner import Hit, SecretScanner, disjoint
from gatewright.secrets.values import looks_random
from tests.attacks import planted
from tests.attacks.real_gate import default_scanner

PATTERNS = SecretScanner()


@pytest.mark.parametrize("kind", planted.ALL)
def test_the_region_of_a_hit_holds_the_whole_value(kind: str) -> None:
    value = planted.ALL[kind].strip().encode()
    data = b"before '" + value + b"' after"
    (hit, *more) = default_scanner().find(data)
    assert not more
    assert value in data[hit.start : hit.end]


def test_the_catalogue_knows_what_the_patterns_do_not() -> None:
    data = f"key = {planted.SENDGRID}".encode()
    assert PATTERNS.find(data) == ()
    assert [hit.rule for hit in default_scanner().find(data)] == ["veles.secrets.sendgrid"]


@pytest.mark.parametrize(
    "text",
    [
        "AK" + "IAIOSFODNN7EXAMPLE",
        "sk-" + "toggleable__content-wrapper",
        "gh" + "p_" + "x" * 36,
        "-----BEGIN " + "PRIVATE KEY-----",
        'if line.startswith("-----BEGIN ' + 'RSA PRIVATE KEY-----"):\n    return PemKey(line)\n',
        "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=",
        "postgresql://user:password@localhost/db",
        "https://user:pass@example.org/simple",
        "http://user:pass%20pass@complex.url.com/path?query=yes",
        "password = 'hunter2'",
        "token = os.environ['TOKEN']",
        "sha256:63d42d26156fcc761e57da4128e9881d5bdf3bf933f0f6e9c93d6e26b9b90ae7",
        "0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_what_only_looks_like_a_credential_is_left_alone(text: str) -> None:
    assert default_scanner().find(text.encode()) == ()


def test_a_first_line_that_is_only_named_hides_no_key_after_it() -> None:
    named = "-----BEGIN " + "PRIVATE KEY----- begins a key\n" + "and here is prose, \n" * 60
    data = (named + planted.PRIVATE_KEY).encode()
    assert PATTERNS.find(data) == (Hit("private_key", len(named), len(data) - 1),)


def test_scanners_name_themselves_for_the_evidence() -> None:
    assert PATTERNS.name == "patterns"
    assert default_scanner().name.startswith("patterns+kingfisher ")


def test_overlapping_hits_are_one() -> None:
    hits = [Hit("b", 5, 9), Hit("a", 3, 7), Hit("c", 9, 12), Hit("d", 3, 4)]
    assert disjoint(hits) == (Hit("a", 3, 9), Hit("c", 9, 12))


@pytest.mark.parametrize(
    ("value", "random"), [("a1b2c3d4e5", True), ("password12", True), ("changeme12", False), ("12345678901", False)]
)
def test_a_generated_value_has_letters_and_digits(value: str, random: bool) -> None:
    assert looks_random(value) is random


@pytest.mark.parametrize(
    "piece", [b"-----BEGIN RSA PRIVATE KEY-----", b"eyJ", b"sk-", b"://a@", b"xoxb-1", b'token="', b"a" * 64]
)
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: bytes) -> None:
    scanner = default_scanner()
    scanner.prepare()
    started = time.process_time()
    scanner.find(piece * (2_000_000 // len(piece)))
    assert time.process_time() - started < 10
