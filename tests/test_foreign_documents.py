"""What strangers write in JSON and TOML: each fault of it is one error, whatever the parser raises."""

from __future__ import annotations

import msgspec
import pytest

from gatewright.foreign_documents import JsonReader, UnreadableDocumentError, read_json, read_toml
from tests.odd_values import NO_DOCUMENTS, odd_bytes


class Decoded(msgspec.Struct):
    name: str
    numbers: tuple[int, ...] = ()


@pytest.mark.parametrize("data", NO_DOCUMENTS)
def test_bytes_that_are_no_document_are_one_error(data: bytes) -> None:
    for read in (lambda data: read_json(data, Decoded), JsonReader(Decoded).decode):
        with pytest.raises(UnreadableDocumentError):
            read(data)


def test_an_odd_value_anywhere_is_read_or_one_error() -> None:
    reader, taken = JsonReader(Decoded), 0
    for data in odd_bytes({"name": "x", "numbers": [1], "more": {"a": [{}]}}, (None, "x", [], {}, 1 << 70, "\ud800")):
        try:
            taken += isinstance(reader.decode(data), Decoded)
        except UnreadableDocumentError:
            continue
    assert taken > 5


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a = " + "1" * 5_000,
            "a = 0x" + "f" * 5_000,
            "a = " + "[" * 3_000 + "]" * 3_000,
            "a = 9223372036854775808",
            "a" + ".b" * 101 + " = 1",
        ),
        *(b"a = '\xff'", b"\0", "a = 1\na = 2", "a = 2026-13-01", "x" * 300_000),
    ],
)
def test_toml_that_cannot_be_read_is_one_error(text: str | bytes) -> None:
    with pytest.raises(UnreadableDocumentError):
        read_toml(text)


def test_the_largest_integers_of_toml_are_read() -> None:
    assert read_toml("a = 9223372036854775807\nb = -9223372036854775808") == {"a": (1 << 63) - 1, "b": -(1 << 63)}
