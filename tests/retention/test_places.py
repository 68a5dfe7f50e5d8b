"""What is asked of every place of bundles: a folder, a store with and without versions and locks, a server of yours.

The server is named by ``GATEWRIGHT_TEST_STORE``, an address that may be written (``s3://BUCKET/PREFIX``), and
``GATEWRIGHT_TEST_STORES``, the folder with the ``stores.json`` that says how it is reached, its keys in files. Each test
writes below a prefix of its own. Without the two it is none of the places.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pytest

from gatewright.app.retention.collection import Collector
from gatewright.app.retention.holds import BOOK, HoldBook
from gatewright.app.retention.store_collection import StoreCollector
from gatewright.app.retention.store_holds import StoreHoldBook
from gatewright.contracts import LegalHold
from gatewright.errors import ConfigurationError, GatewrightError, MalformedError, StoreError
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.address import StoreAddress, parse_store
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.store.objects import ObjectStore, archive_name, hold_name, pointer_name
from gatewright.evidence.store.policy import STORES_FILE, RetentionLock, StoreCredentials, StoreEntry
from gatewright.evidence.store.publishing import BundlePublisher
from gatewright.evidence.store.s3 import S3Store
from gatewright.evidence.store.storing_writer import StoringWriter
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter, Sealed
from gatewright.policy_files import FileKey
from tests.evidence.recorded_runs import RecordedRun
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import S3Server, serving
from tests.retention.conftest import NOW, STRICT, House, StoppedClock

#: Read before the tests' own environment takes the place of the caller's.
NAMED, POLICIES = os.environ.get("GATEWRIGHT_TEST_STORE", ""), os.environ.get("GATEWRIGHT_TEST_STORES", "")
STORES: Final = ("store", "bare store", *(("named server",) if NAMED else ()))


class Place(Protocol):
    """Where bundles are kept, and what is done with them there."""

    def seal(self, run: RecordedRun) -> Sealed: ...

    def verdict(self, run_id: str) -> str: ...

    def collector(self) -> Collector | StoreCollector: ...

    def write(self, act: LegalHold) -> None: ...

    def alter(self, run_id: str) -> None:
        """As one does who may write there."""

    def spoil_holds(self) -> None:
        """So that what is on hold cannot be told any more."""


@dataclass
class HomePlace:
    house: House

    def seal(self, run: RecordedRun) -> Sealed:
        writer = BundleWriter(self.house.root)
        return asyncio.run(writer.seal(run.run, run.transitions, run.store, self.house.signer, run.sequences))

    def verdict(self, run_id: str) -> str:
        return verify(self.house.root / run_id, [self.house.key.public]).outcome

    def collector(self) -> Collector:
        return self.house.collector()

    def write(self, act: LegalHold) -> None:
        HoldBook(self.house.home).write(act)

    def alter(self, run_id: str) -> None:
        path = self.house.root / run_id / "patch.diff"
        path.chmod(0o644)
        path.write_bytes(b"another change")

    def spoil_holds(self) -> None:
        (self.house.home / BOOK).write_bytes(b"{}\n")


@dataclass
class BucketPlace:
    address: StoreAddress
    entry: StoreEntry
    scratch: Path
    signer: Signer

    def open(self) -> ObjectStore:
        return S3Store.open(self.address, self.entry)

    def seal(self, run: RecordedRun) -> Sealed:
        home = self.scratch / secrets.token_hex(4)
        locked = self.entry.lock is not None
        publisher = BundlePublisher(self.open(), home / "outgoing", lambda: [self.signer.public], locked=locked)
        writer = StoringWriter(home / "runs", self.address, publisher)
        return asyncio.run(writer.seal(run.run, run.transitions, run.store, self.signer, run.sequences))

    def verdict(self, run_id: str) -> str:
        try:
            return verify(fetch(self.open(), run_id, self.scratch / secrets.token_hex(4)), [self.signer.public]).outcome
        except StoreError as error:
            return error.reason

    def collector(self) -> StoreCollector:
        return StoreCollector(self.open(), [self.signer.public], STRICT, StoppedClock(), "operator")

    def write(self, act: LegalHold) -> None:
        StoreHoldBook(self.open()).write(act)

    def archive(self, run_id: str) -> str:
        return archive_name(json.loads(self.open().read(pointer_name(run_id)) or b"")["manifest_sha256"])

    def alter(self, run_id: str) -> None:
        name, store = self.archive(run_id), self.open()
        store.remove(name)
        assert store.create(name, b"evidence of an intrusion")

    def spoil_holds(self) -> None:
        assert self.open().create(hold_name("run-00000000000000000009", 1), b"{}")


@contextmanager
def opened_store(kind: str, scratch: Path, house: House) -> Iterator[BucketPlace]:
    if kind == "named server":
        address = parse_store(f"{NAMED}/{secrets.token_hex(8)}")
        entry = STORES_FILE.load(Path(POLICIES)).policy.entry(address).model_copy(update={"lock": None})
        yield BucketPlace(address, entry, scratch, house.signer)
        return
    bare = kind == "bare store"
    with serving(S3Server(versioned=not bare, locks=not bare)) as server:
        made = StoreHouse(server, scratch, house.signer)
        yield BucketPlace(made.address, made.entry, scratch, house.signer)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, house: House) -> Iterator[BucketPlace]:
    with opened_store(request.param, tmp_path, house) as made:
        yield made


@pytest.fixture(params=["folder", *STORES])
def place(request: pytest.FixtureRequest, tmp_path: Path, house: House) -> Iterator[Place]:
    if request.param == "folder":
        yield HomePlace(house)
        return
    with opened_store(request.param, tmp_path, house) as made:
        yield made


def hold(run_id: str, act: str = "place") -> LegalHold:
    return LegalHold(
        run_id=run_id, act="place" if act == "place" else "release", reason="a dispute", by="op", at=NOW.isoformat()
    )


def collect(place: Place, house: House) -> dict[str, str]:
    collector = place.collector()
    return {done.item.run_id: done.code for done in collector.carry_out(collector.plan(), house.signer)}


def test_what_is_sealed_verifies_and_sealing_it_again_changes_nothing(place: Place, house: House) -> None:
    run = house.recorded(1)
    first = place.seal(run)
    assert place.verdict(run.run_id) == "ok"
    assert place.seal(run).manifest_sha256 == first.manifest_sha256
    assert place.verdict(run.run_id) == "ok"


def test_what_is_on_hold_stays_and_goes_for_good_after_its_release(place: Place, house: House) -> None:
    held, young = house.recorded(1), house.recorded(2, days_old=0.5)
    place.seal(held)
    place.seal(young)
    place.write(hold(held.run_id))
    with pytest.raises(MalformedError, match="on hold already"):
        place.write(hold(held.run_id))
    assert collect(place, house) == {}
    place.write(hold(held.run_id, "release"))
    with pytest.raises(MalformedError, match="not on hold"):
        place.write(hold(held.run_id, "release"))
    assert collect(place, house) == {held.run_id: ""}
    assert (place.verdict(held.run_id), place.verdict(young.run_id)) == ("incomplete", "ok")
    assert collect(place, house) == {}


def test_nothing_is_deleted_while_holds_are_unreadable(place: Place, house: House) -> None:
    run = house.recorded(1)
    place.seal(run)
    place.spoil_holds()
    with pytest.raises(ConfigurationError) as refused:
        place.collector().plan()
    assert refused.value.reason == "holds_unreadable"
    assert place.verdict(run.run_id) == "ok"


def test_what_was_altered_does_not_verify_and_is_not_removed(place: Place, house: House) -> None:
    run = house.recorded(1)
    place.seal(run)
    place.alter(run.run_id)
    assert place.verdict(run.run_id) in {"not_verified", "stored_bundle_altered"}
    assert collect(place, house) == {}


def test_of_many_writers_of_one_name_one_has_written(store: BucketPlace) -> None:
    opened = store.open()
    with ThreadPoolExecutor(6) as pool:
        wrote = list(pool.map(lambda number: _created(opened, b"%d" % number), range(6)))
    assert wrote.count(True) == 1
    assert opened.read("once") == b"%d" % wrote.index(True)
    assert not opened.create("once", b"later")


def _created(store: ObjectStore, data: bytes) -> bool:
    try:
        return store.create("once", data)
    except StoreError as error:
        # Another write of it was under way: a store may say so.
        assert error.reason == "store_unreachable"  # noqa: PT017 - in a thread
        return False


def test_what_is_removed_leaves_neither_a_name_nor_its_bytes(store: BucketPlace) -> None:
    opened = store.open()
    for name in ("runs/a", "runs/aa", "runs/b", "runs/c", "runs/d"):
        assert opened.create(name, name.encode())
    opened.remove("runs/a")
    opened.remove("runs/never")
    assert list(opened.names("runs/")) == ["runs/aa", "runs/b", "runs/c", "runs/d"]
    assert (opened.read("runs/a"), opened.lock_of("runs/a")) == (None, None)
    with pytest.raises(StoreError) as refused:
        opened.download("runs/aa", io.BytesIO(), 3)
    assert refused.value.reason == "stored_bundle_too_large"


def test_what_the_policy_locks_is_locked_or_not_sealed(store: BucketPlace, house: House) -> None:
    opened, run = store.open(), house.recorded(1)
    assert opened.create("probe", b"x")
    has_locks = opened.hold("probe", on=True)
    assert opened.hold("probe", on=False) == has_locks
    store.entry = store.entry.model_copy(update={"lock": RetentionLock(days=1)})
    if has_locks:
        store.seal(run)
        assert [(item.action, item.why.startswith("the store has it locked")) for item in store.collector().plan()] == [
            ("keep", True)
        ]
        with pytest.raises(StoreError) as refused:
            opened.remove(store.archive(run.run_id))
        assert refused.value.reason == "store_locked"
        assert store.verdict(run.run_id) == "ok"
    else:
        with pytest.raises(StoreError) as refused:
            store.seal(run)
        assert refused.value.reason == "store_lock_refused"


def test_a_foreign_key_and_a_missing_bucket_are_named(store: BucketPlace, tmp_path: Path) -> None:
    nowhere = dataclasses.replace(store.address, authority=f"{store.address.authority}-{secrets.token_hex(6)}")
    with pytest.raises(StoreError) as missing:
        S3Store.open(nowhere, store.entry).read("runs/x")
    assert missing.value.reason == "store_missing"
    wrong = tmp_path / "wrong.key"
    wrong.write_text("AKIDOFNOBODYATALL")
    keys = StoreCredentials(access_key=FileKey(file=wrong), secret_key=FileKey(file=wrong))
    stranger = S3Store.open(store.address, store.entry.model_copy(update={"credentials": keys}))
    for ask in (lambda: stranger.read("runs/x"), lambda: stranger.create("runs/x", b"x"), lambda: list(stranger.names(""))):
        with pytest.raises(GatewrightError) as denied:
            ask()
        assert denied.value.reason == "store_denied"
    assert wrong.read_text() not in denied.value.message


def test_a_server_that_is_named_is_one_of_the_places() -> None:
    """Else the suite would be played without it, and say that all is well."""
    assert bool(NAMED) == bool(POLICIES) == ("named server" in STORES)
