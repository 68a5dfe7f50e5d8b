"""A store may give anything for a bundle, at any length and speed: what is not the sealed bundle is named by a code."""

from __future__ import annotations

import asyncio
import hashlib
import io
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.errors import StoreError
from gatewright.evidence.store import archive
from gatewright.evidence.store.address import parse_run, parse_store
from gatewright.evidence.store.bounded_body import BoundedBody
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.store.objects import archive_name, pointer_name
from gatewright.evidence.store.pointer import pointer_of
from gatewright.evidence.store.policy import StoresPolicy
from gatewright.evidence.store.static_export import StaticExport
from gatewright.evidence.verification.verify import verify
from tests.evidence.recorded_runs import RecordedRun, make_failed, make_success
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import Reply, S3Server, serving

Tamper = Callable[[bytes], bytes]


@pytest.fixture
def stored(house: StoreHouse) -> tuple[StoreHouse, RecordedRun, str]:
    """A house whose store holds a run's bundle, the run, and the key of its archive."""
    run = make_success()
    sealed = asyncio.run(house.seal(run))
    return house, run, house.key(archive_name(sealed.manifest_sha256))


def refusal(house: StoreHouse, run_id: str, into: Path) -> str:
    with pytest.raises(StoreError) as refused:
        fetch(house.open(), run_id, into)
    assert "\x1b" not in refused.value.message
    return refused.value.reason


@pytest.mark.parametrize(
    "tamper",
    [lambda data: data[:-1], lambda _: b"", lambda data: data[:100] + b"X" + data[101:], lambda data: data[::-1]],
    ids=["cut_off", "emptied", "one_byte", "turned_round"],
)
def test_other_bytes_than_were_written_are_refused(
    stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path, tamper: Tamper
) -> None:
    house, run, key = stored
    house.server.overwrite(key, tamper(house.server.objects[key][-1].data))
    assert refusal(house, run.run_id, tmp_path / "in") == "stored_bundle_altered"


def test_no_more_bytes_are_read_than_the_pointer_declares(stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path) -> None:
    house, run, key = stored
    house.server.overwrite(key, house.server.objects[key][-1].data + b"\0" * (8 << 20))
    assert refusal(house, run.run_id, tmp_path / "in") == "stored_bundle_too_large"


def test_the_bundle_of_another_run_under_this_id_is_refused(
    stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path
) -> None:
    """By its own pointer; with a pointer that was made to fit, what comes is found out when it is verified."""
    house, run, _ = stored
    other = "run-ffffffffffffffffffff"
    pointer = house.server.objects[house.key(pointer_name(run.run_id))][-1].data
    house.server.overwrite(house.key(pointer_name(other)), pointer)
    assert refusal(house, other, tmp_path / "in") == "stored_bundle_altered"
    house.server.overwrite(house.key(pointer_name(other)), pointer.replace(run.run_id.encode(), other.encode()))
    result = verify(fetch(house.open(), other, tmp_path / "in"), [house.signer.public])
    assert (result.ok, [finding.code for finding in result.findings]) == (False, ["other_run"])


def test_an_archive_and_a_pointer_that_were_both_forged_do_not_verify(
    stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path
) -> None:
    """A writer with the store's credentials leads the run to a bundle that it made up out of a good one."""
    house, run, key = stored
    folder = tmp_path / "forged"
    archive.unpack(_file(tmp_path, house.server.objects[key][-1].data), folder)
    (folder / "patch.diff").chmod(0o644)
    (folder / "patch.diff").write_bytes(b"another change")
    packed = tmp_path / "forged.zip"
    archive.pack(folder, packed)
    forged = pointer_of(folder, packed.stat().st_size, hashlib.sha256(packed.read_bytes()).hexdigest())
    house.server.overwrite(key, packed.read_bytes())
    house.server.overwrite(house.key(pointer_name(run.run_id)), forged.encoded())
    result = verify(fetch(house.open(), run.run_id, tmp_path / "in"), [house.signer.public])
    assert {("patch.diff", "size_differs")} <= {(finding.path, finding.code) for finding in result.findings}


def test_a_bundle_lost_by_the_store_is_reported_missing(stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path) -> None:
    house, run, key = stored
    del house.server.objects[key]
    assert refusal(house, run.run_id, tmp_path / "in") == "stored_bundle_missing"
    assert refusal(house, "run-ffffffffffffffffffff", tmp_path / "in") == "stored_bundle_missing"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "store_denied"),
        (401, "store_denied"),
        (500, "store_unreachable"),
        (400, "store_refused"),
        (404, "stored_bundle_missing"),
    ],
)
def test_every_refusal_of_a_store_has_a_code(house: StoreHouse, tmp_path: Path, status: int, code: str) -> None:
    body = b"<Error><Code>NoSuchKey</Code></Error>" if status == 404 else b"<Error><Code>\x1b[2JOdd</Code></Error>"
    house.server.hook = lambda *_: Reply(status, body)
    assert refusal(house, make_failed().run_id, tmp_path / "in") == code


def test_a_missing_store_is_reported_unreachable(house: StoreHouse, tmp_path: Path) -> None:
    with serving(S3Server()) as gone:
        house.server = gone
        store = house.open()
    with pytest.raises(StoreError) as refused:
        fetch(store, make_failed().run_id, tmp_path / "in")
    assert refused.value.reason == "store_unreachable"


@pytest.mark.parametrize("body", [b"", b"<Error><Code>PermanentRedirect</Code></Error>"], ids=["empty", "told"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_store_that_sends_elsewhere_is_not_followed(house: StoreHouse, tmp_path: Path, status: int, body: bytes) -> None:
    """Neither with the credentials nor without them; and it is not asked where, again and again."""
    with serving(S3Server()) as elsewhere:
        told = {"Location": f"{elsewhere.endpoint}/evidence/x", "x-amz-bucket-region": "eu-west-1"}
        house.server.hook = lambda *_: Reply(status, body, told)
        assert refusal(house, make_failed().run_id, tmp_path / "in") == "store_redirects"
        assert len(house.server.requests) == 1
        export = StaticExport(
            parse_store(f"{house.server.endpoint}/evidence"), StoresPolicy(version="1", stores=()).entry(house.address)
        )
        with pytest.raises(StoreError) as refused:
            fetch(export, make_failed().run_id, tmp_path / "in")
        assert refused.value.reason == "store_redirects"
        assert elsewhere.requests == []


@pytest.mark.parametrize("part", ["/runs/", "/bundles/"])
@pytest.mark.parametrize("scheme", ["s3", "https"])
def test_a_store_that_breaks_off_in_the_middle_is_no_altered_bundle(
    stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path, scheme: str, part: str
) -> None:
    """It is tried again later; of altered evidence a person has to hear."""
    house, run, _ = stored

    def hook(_: str, key: str, server: S3Server) -> Reply:
        found = server.newest(key)
        if found is None:
            return Reply(404)
        if part not in f"/{key}":
            return Reply(200, found.data)
        told = {"Content-Length": str(len(found.data)), "Connection": "close"}
        return Reply(200, found.data[: len(found.data) // 2], told)

    house.server.hook = hook
    export = parse_store(f"{house.server.endpoint}/evidence/{house.address.prefix}")
    store = house.open() if scheme == "s3" else StaticExport(export, house.entry)
    with pytest.raises(StoreError) as refused:
        fetch(store, run.run_id, tmp_path / "in")
    assert refused.value.reason == "store_unreachable"
    house.server.hook = None
    assert verify(fetch(house.open(), run.run_id, tmp_path / "in"), [house.signer.public]).ok


@pytest.mark.parametrize("reply", [Reply(0), Reply(503)], ids=["breaks_off", "busy"])
@pytest.mark.parametrize("part", ["/write-once", "/bundles/", "/runs/"])
def test_a_store_that_fails_at_a_write_seals_nothing_and_loses_nothing(
    house: StoreHouse, tmp_path: Path, part: str, reply: Reply
) -> None:
    house.server.hook = lambda method, key, _: reply if method == "PUT" and part in f"/{key}" else None
    run = make_failed()
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(run))
    assert refused.value.reason == "store_unreachable"
    house.server.hook = None
    asyncio.run(house.seal(run))
    assert verify(fetch(house.open(), run.run_id, tmp_path / "in"), [house.signer.public]).ok


def test_an_error_without_end_is_not_read_to_its_end(house: StoreHouse, tmp_path: Path) -> None:
    house.server.hook = lambda *_: Reply(403, b"<Error>" + b"x" * (9 << 20))
    assert refusal(house, make_failed().run_id, tmp_path / "in") == "stored_bundle_too_large"


def test_a_pointer_without_end_is_none(house: StoreHouse, tmp_path: Path) -> None:
    run = make_failed()
    house.server.overwrite(house.key(pointer_name(run.run_id)), b"{" + b" " * (1 << 20))
    assert refusal(house, run.run_id, tmp_path / "in") == "stored_bundle_too_large"


def test_a_store_that_sends_by_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 7))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))

    class Dripping(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return b"."

    with pytest.raises(StoreError) as refused:
        list(BoundedBody(Dripping(), 1 << 20, 60.0).stream())
    assert refused.value.reason == "store_unreachable"


def zipped(entries: list[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", kind) as packed:
        for name, content in entries:
            packed.writestr(zipfile.ZipInfo(name), content, kind)
    return data.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        zipped([("../escaped", b"x")]),
        zipped([("/escaped", b"x")]),
        zipped([("a/../../escaped", b"x")]),
        zipped([("a\\b", b"x")]),
        zipped([("a", b"x"), ("a/b", b"x")]),
        zipped([("a", b"0" * 100_000)], zipfile.ZIP_DEFLATED),
        zipped([("a" * 300, b"x")]),
        zipped([("a", b"x")]) + b"behind it",
        zipped([("a", b"x")])[:-4] + b"\xff\xff\xff\x7f"[:2] + b"\0\0",
    ],
    ids=[
        "empty",
        "torn",
        "dots",
        "absolute",
        "inner_dots",
        "backslash",
        "file_and_folder",
        "packed",
        "long",
        "tail",
        "comment",
    ],
)
def test_an_archive_that_no_gatekeeper_packed_is_not_unpacked(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(StoreError) as refused:
        archive.unpack(_file(tmp_path, data), tmp_path / "deep" / "in")
    assert refused.value.reason == "stored_bundle_altered"
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path / "deep" / "escaped").exists()


def test_an_archive_with_a_name_twice_is_not_unpacked(tmp_path: Path) -> None:
    data = zipped([("aa", b"x"), ("ab", b"y")]).replace(b"ab", b"aa")
    with pytest.raises(StoreError) as refused:
        archive.unpack(_file(tmp_path, data), tmp_path / "in")
    assert refused.value.reason == "stored_bundle_altered"


@pytest.mark.parametrize(
    "given",
    [
        "s3://evidence/team/run-1",
        "s3:///run-0123456789abcdef0123",
        "s3://key:secret@evidence/run-0123456789abcdef0123",
        "http://example.org/run-0123456789abcdef0123",
        "https://example.org/x?token=1/run-0123456789abcdef0123",
        "s3://evidence/../run-0123456789abcdef0123",
        "ftp://evidence/run-0123456789abcdef0123",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(given: str) -> None:
    with pytest.raises(StoreError) as refused:
        parse_run(given)
    assert refused.value.reason == "store_address_invalid"
    assert "secret" not in refused.value.message


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "archive.zip"
    path.write_bytes(data)
    return path


def test_a_pointer_of_a_later_version_is_no_altered_bundle(stored: tuple[StoreHouse, RecordedRun, str], tmp_path: Path) -> None:
    house, run, _ = stored
    name = house.key(pointer_name(run.run_id))
    data = house.server.objects[name][-1].data
    house.server.overwrite(name, data.replace(b'"version": 1', b'"version": 2, "codec": "zstd"'))
    assert refusal(house, run.run_id, tmp_path / "in") == "layout_unknown"
