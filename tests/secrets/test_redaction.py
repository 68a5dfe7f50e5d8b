"""Outputs without their secrets, and the record of what was taken out."""

from __future__ import annotations

import msgspec
import pytest

from gatewright.secrets.redaction import Redaction, record_of, redact_output
from tests.attacks import planted
from tests.attacks.real_gate import default_scanner

SCANNER = default_scanner()


@pytest.mark.parametrize("kind", planted.ALL)
def test_a_value_is_replaced_by_the_name_of_its_rule(kind: str) -> None:
    value = planted.ALL[kind].strip()
    clean = redact_output("stdout", f"line one\nusing {value}\nline three\n".encode(), SCANNER)
    assert value.encode() not in clean.data
    assert clean.data.startswith(b"line one\nusing [redacted:")
    assert clean.data.endswith(b"]\nline three\n")
    (record,) = clean.redactions
    assert (record.place, record.count, record.line) == ("stdout", 1, 2)


def test_clean_output_is_the_very_same() -> None:
    data = b"3 passed in 0.1s\n\xff\xfe\0"
    assert redact_output("stdout", data, SCANNER) == (redacted := redact_output("stdout", data, SCANNER))
    assert redacted.data is data
    assert record_of(redacted.redactions) == b""


def test_redacting_twice_changes_nothing_more() -> None:
    text = "\n".join([*planted.ALL.values(), f"password={planted.STRIPE}", "Authorization: Bearer abc123def456ghi789"])
    once = redact_output("stdout", text.encode(), SCANNER)
    assert redact_output("stdout", once.data, SCANNER).redactions == ()
    assert SCANNER.find(once.data) == ()


def test_the_record_holds_no_value_and_nothing_made_of_one() -> None:
    clean = redact_output("unit.stdout", f"{planted.GITHUB}\n{planted.GITHUB}\n".encode(), SCANNER)
    assert clean.redactions == (Redaction("unit.stdout", "github_token", 2, 1),)
    assert set(msgspec.json.decode(record_of(clean.redactions))[0]) == {"place", "rule", "count", "line"}


def test_words_around_a_generated_value_count_in_outputs() -> None:
    value = planted.STRIPE.removeprefix("sk_" + "live_")
    clean = redact_output("stderr", f"DB_PASSWORD={value} host=db\n".encode(), SCANNER)
    assert clean.data == b"DB_PASSWORD=[redacted:connection_password] host=db\n"


def test_the_words_of_a_failed_test_are_kept() -> None:
    data = b"E  assert token == 'abc'\nE  password = 'hunter2'\nE  Authorization: header missing\n"
    assert redact_output("stdout", data, SCANNER).data == data
