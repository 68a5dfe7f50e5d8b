"""Bytes of any shape in the place of evidence are named by a code of their family: malformed, not verified, or of the store."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatewright.app.replay.recorded_calls import requests_of
from gatewright.errors import GatewrightError, MalformedError, StoreError, VerificationError
from gatewright.evidence import tombstone
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store import archive
from gatewright.evidence.store.pointer import read_pointer
from gatewright.models.cassettes import Cassette
from gatewright.models.recorded_transfers import broken_by_calls
from tests.evidence.store.conftest import StoreHouse, house, server  # noqa: F401 - fixtures
from tests.evidence.store.s3_server import Reply
from tests.odd_values import NO_DOCUMENTS, Message, few_or_all, odd_bytes

RUN = "run-0123456789abcdef0123"
HEX = "0" * 64
POINTER: Message = {
    "version": 1,
    "run_id": RUN,
    "manifest_sha256": HEX,
    "signer": HEX,
    "size": 5,
    "sha256": HEX,
    "status": "SUCCESS",
    "finished_at": "2026-05-04T10:00:00.000Z",
}
CALL: Message = {
    "number": 1,
    "request_sha256": HEX,
    "request": "{}",
    "status": 200,
    "content_type": "application/json",
    "reply": ["{}", "base64:AA=="],
    "whole": True,
    "model_used": "m",
    "provider": "p",
    "input_tokens": 1,
    "cached_tokens": 0,
    "cache_written_tokens": 0,
    "output_tokens": 1,
    "refused": "",
    "withheld": False,
}


@few_or_all
def test_a_pointer_of_any_shape_is_altered_or_read(values: tuple[object, ...]) -> None:
    for data in odd_bytes(POINTER, values):
        try:
            assert read_pointer(data, RUN).run_id == RUN
        except StoreError as error:
            assert error.reason in {"stored_bundle_altered", "layout_unknown"}  # noqa: PT017 - both ends are right


@few_or_all
def test_an_envelope_of_any_shape_opens_nothing(values: tuple[object, ...], signer: Signer) -> None:
    whole: Message = json.loads(signer.envelope(b"{}"))
    for data in odd_bytes(whole, values):
        with pytest.raises((MalformedError, VerificationError)):
            tombstone.open_tombstone(data, [signer.public])


@few_or_all
def test_what_was_signed_in_any_shape_is_no_tombstone(values: tuple[object, ...], signer: Signer) -> None:
    statement: Message = {
        "_type": "x",
        "subject": [{"name": "a", "digest": {"gitBlob": "x"}}],
        "predicateType": "y",
        "predicate": {},
    }
    for payload in odd_bytes(statement, values):
        with pytest.raises((MalformedError, VerificationError)):
            tombstone.open_tombstone(signer.envelope(payload), [signer.public])


@few_or_all
def test_a_cassette_of_any_shape_is_invalid_or_played(values: tuple[object, ...]) -> None:
    for line in odd_bytes(CALL, values):
        rest = line + b"\n"
        head = json.dumps({"format": "gatewright-cassette/1", "sha256": hashlib.sha256(rest).hexdigest()}).encode()
        try:
            cassette = Cassette.read(head + b"\n" + rest)
        except MalformedError as error:
            assert error.reason == "cassette_invalid"  # noqa: PT017 - both ends are right
            continue
        cassette.find(b"{}")
        cassette.miss(b'{"a": 1}')


@few_or_all
def test_records_of_calls_of_any_shape_break_or_hold(values: tuple[object, ...]) -> None:
    for line in odd_bytes(CALL, values):
        assert isinstance(broken_by_calls("worker", None, line), tuple)
        try:
            requests_of(line)
        except MalformedError as error:
            assert error.reason == "not_reexecutable"  # noqa: PT017 - both ends are right


def odd_archives() -> Iterator[bytes]:
    """Archives whose names, numbers and places are odd."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        packed.writestr("manifest.json", b"{}")
        packed.writestr("a/b", b"x" * 100)
    whole = data.getvalue()
    yield from (b"", b"PK\5\6" + b"\0" * 18, whole, whole[:-1], whole + b"\0", whole[:50] + whole[60:])
    for at in range(0, len(whole), 3):
        for odd in (b"\xff" * 4, b"\0" * 4, struct.pack("<I", 1 << 31)):
            yield whole[:at] + odd + whole[at + 4 :]
    for name in ("", "/", "../x", "a" * 300, "a/" * 600 + "b", "a\0b", "\u202e", "con\\x", "a\nb"):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as packed:
            packed.writestr(zipfile.ZipInfo(name), b"x")
        yield data.getvalue()


def test_an_archive_of_any_shape_is_altered_or_unpacked(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for number, data in enumerate(odd_archives()):
        place.write_bytes(data)
        try:
            archive.unpack(place, tmp_path / str(number))
        except StoreError as error:
            assert error.reason in {"stored_bundle_altered", "stored_bundle_too_large"}  # noqa: PT017 - both ends are right


BODIES = (
    *(b"", b"<", b"<a>", b"<Error/>", b"<Error><Code/></Error>", b"<Error><Code>" + b"a" * 70_000 + b"</Code></Error>"),
    *(
        b"<ListBucketResult/>",
        b"<ListBucketResult><Contents/></ListBucketResult>",
        b"\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    ),
    b"<ListBucketResult><Contents><Key>x</Key><Size>NaN</Size><LastModified>yesterday</LastModified></Contents></ListBucketResult>",
    b"<ListBucketResult><IsTruncated>maybe</IsTruncated><KeyCount>" + b"9" * 5_000 + b"</KeyCount></ListBucketResult>",
    b"<ObjectLockConfiguration><ObjectLockEnabled><x/></ObjectLockEnabled></ObjectLockConfiguration>",
    b"<a>" * 5_000 + b"</a>" * 5_000,
    b"{}",
)
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"x-amz-object-lock-retain-until-date": "yesterday", "x-amz-object-lock-mode": "X"},
    {"x-amz-object-lock-retain-until-date": "9999-99-99T99:99:99Z"},
    {"x-amz-object-lock-retain-until-date": "9999-12-31T23:59:59-12:00", "x-amz-object-lock-mode": "GOVERNANCE"},
    {"Last-Modified": "never", "Content-Range": "x", "ETag": ""},
    {"x-amz-missing-meta": "x" * 200, "x-amz-expiration": "y", "Expires": "-1"},
)


@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_of_a_store_of_any_shape_has_a_code(house: StoreHouse, status: int) -> None:  # noqa: F811
    store = house.open()
    defects = []
    for body, headers in (*((body, {}) for body in BODIES), *((b"", headers) for headers in HEADERS)):
        house.server.hook = lambda *_, body=body, headers=headers: Reply(status, body, headers)
        asks: dict[str, Callable[[], object]] = {
            "read": lambda: store.read("x"),
            "names": lambda: list(store.names("runs/")),
            "lock_of": lambda: store.lock_of("x"),
            "hold": lambda: store.hold("x", on=True),
            "remove": lambda: store.remove("x"),
            "create": lambda: store.create("x", b"y"),
        }
        for name, ask in asks.items():
            try:
                ask()
            except StoreError:
                continue
            except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
                defects.append((name, status, body[:60], headers, repr(error)[:200]))
    assert defects == []


@pytest.mark.parametrize("data", NO_DOCUMENTS)
def test_bytes_that_are_no_document_are_no_evidence(data: bytes) -> None:
    for read in (Cassette.read, lambda data: read_pointer(data, RUN)):
        with pytest.raises(GatewrightError):
            read(data)
