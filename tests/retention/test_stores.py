"""Collecting old bundles in a store: the same rules, signed tombstones, holds and the store's own locks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.retention.store_collection import StoreCollector
from gatewright.app.retention.store_holds import StoreHoldBook
from gatewright.contracts import LegalHold
from gatewright.errors import MalformedError, StoreError, UnavailableError
from gatewright.evidence.store.address import parse_store
from gatewright.evidence.store.fetching import fetch, open_store
from gatewright.evidence.store.objects import archive_name, hold_name, pointer_name, tombstone_name
from gatewright.evidence.store.policy import StoresPolicy
from gatewright.evidence.verification.verify import verify
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import Reply, S3Server, serving
from tests.retention.conftest import NOW, STRICT, House, StoppedClock


class OldStore(StoreHouse):
    """A store with bundles of runs that ended long ago."""

    def put(self, house: House, number: int, *, days_old: float = 100) -> str:
        run = house.recorded(number, days_old=days_old)
        asyncio.run(self.seal(run))
        return run.run_id

    def collector(self, policy: RetentionPolicy = STRICT) -> StoreCollector:
        return StoreCollector(self.open(), [self.signer.public], policy, StoppedClock(), "operator")

    def actions(self, policy: RetentionPolicy = STRICT) -> dict[str, str]:
        return {item.run_id: item.action for item in self.collector(policy).plan()}

    def collect(self) -> dict[str, str]:
        collector = self.collector()
        return {done.item.run_id: done.code for done in collector.carry_out(collector.plan(), self.signer)}

    def verdict(self, run_id: str, into: Path) -> str:
        return verify(fetch(self.open(), run_id, into), [self.signer.public]).outcome

    def archive(self, run_id: str) -> str:
        pointer = json.loads(self.server.objects[self.key(pointer_name(run_id))][-1].data)
        return self.key(archive_name(pointer["manifest_sha256"]))


@pytest.fixture
def old(tmp_path: Path, house: House) -> Iterator[OldStore]:
    with serving(S3Server()) as server:
        yield OldStore(server, tmp_path, house.signer)


def hold(run_id: str, act: str = "place") -> LegalHold:
    return LegalHold(
        run_id=run_id, act="place" if act == "place" else "release", reason="a dispute", by="op", at=NOW.isoformat()
    )


def test_an_old_bundle_goes_and_leaves_a_tombstone_that_verifies(old: OldStore, house: House, tmp_path: Path) -> None:
    gone, stays = old.put(house, 1), old.put(house, 2, days_old=0.5)
    assert old.actions() == {gone: "prune", stays: "keep"}
    assert old.collect() == {gone: ""}
    result = verify(fetch(old.open(), gone, tmp_path / "in"), [old.signer.public])
    assert (result.run_id, result.outcome, [finding.code for finding in result.findings]) == (gone, "incomplete", ["pruned"])
    assert old.verdict(stays, tmp_path / "in") == "ok"
    assert old.actions() == {gone: "keep", stays: "keep"}


def test_what_was_put_before_the_bucket_kept_versions_goes_with_its_bytes(old: OldStore, house: House) -> None:
    """A deletion that names no version would leave a marker, behind which the bundle lies."""
    old.server.versioned = False
    run_id = old.put(house, 1)
    old.server.versioned = True
    assert old.collect() == {run_id: ""}
    assert not old.server.objects[old.archive(run_id)]


def test_a_late_gatekeeper_does_not_seal_a_pruned_bundle_again(old: OldStore, house: House) -> None:
    """It crashed before the ledger knew of the seal."""
    gone = old.put(house, 1)
    key = old.archive(gone)
    old.collect()
    sealed = asyncio.run(old.seal(house.recorded(1), "the-late-one"))
    assert sealed.location.endswith(gone)
    assert not old.server.objects[key]


def test_a_bundle_on_hold_stays_until_the_hold_is_released(old: OldStore, house: House) -> None:
    run_id = old.put(house, 1)
    book = StoreHoldBook(old.open())
    assert book.write(hold(run_id))  # the store holds it as well
    assert old.server.objects[old.archive(run_id)][-1].held
    assert old.actions() == {run_id: "keep"}
    with pytest.raises(MalformedError) as refused:
        book.write(hold(run_id))
    assert refused.value.reason == "already_held"
    assert book.write(hold(run_id, "release"))
    assert not old.server.objects[old.archive(run_id)][-1].held
    assert old.actions() == {run_id: "prune"}
    assert old.collect() == {run_id: ""}


def test_a_hold_never_overwrites_the_bundle(old: OldStore, house: House, tmp_path: Path) -> None:
    """A server may take the act for a new object of that name; the command says that the book alone holds."""
    old.server.locks = False
    run_id = old.put(house, 1)
    assert not StoreHoldBook(old.open()).write(hold(run_id))
    assert old.actions() == {run_id: "keep"}
    assert old.verdict(run_id, tmp_path / "in") == "ok"


def test_a_hold_that_comes_while_the_bundle_is_being_removed_keeps_it(old: OldStore, house: House, tmp_path: Path) -> None:
    run_id = old.put(house, 1)
    collector = old.collector()
    plan = collector.plan()
    text = json.dumps({"run_id": run_id, "act": "place", "reason": "x", "by": "op", "at": NOW.isoformat()}).encode()

    def hook(method: str, key: str, server: S3Server) -> Reply | None:
        if method == "PUT" and "/tombstones/" in key:
            server.overwrite(old.key(hold_name(run_id, 1)), text)
        return None

    old.server.hook = hook
    assert [done.code for done in collector.carry_out(plan, old.signer)] == ["bundle_changed"]
    assert old.verdict(run_id, tmp_path / "in") == "ok"


def test_a_hold_that_comes_too_late_reports_it(old: OldStore, house: House) -> None:
    run_id = old.put(house, 1)
    old.collect()
    with pytest.raises(UnavailableError) as refused:
        StoreHoldBook(old.open()).write(hold(run_id))
    assert refused.value.reason == "bundle_changed"


def test_a_lock_that_the_plan_did_not_see_leaves_the_bundle_whole(old: OldStore, house: House, tmp_path: Path) -> None:
    run_id = old.put(house, 1)
    collector = old.collector()
    plan = collector.plan()
    old.server.objects[old.archive(run_id)][-1].until = "2036-01-01T00:00:00Z"
    assert [done.code for done in collector.carry_out(plan, old.signer)] == ["store_locked"]
    assert old.verdict(run_id, tmp_path / "in") == "ok"


@pytest.mark.parametrize("step", ["/tombstones/", "/bundles/"])
def test_a_removal_that_was_cut_short_is_finished(old: OldStore, house: House, tmp_path: Path, step: str) -> None:
    """The process dies before the tombstone is written, or before the archive goes."""
    run_id = old.put(house, 1)
    collector = old.collector()
    plan = collector.plan()
    dead = False

    def hook(method: str, key: str, _: S3Server) -> Reply | None:
        nonlocal dead
        dead = dead or (step in key and method in {"PUT", "DELETE"})
        return Reply(418) if dead else None

    old.server.hook = hook
    assert [done.code for done in collector.carry_out(plan, old.signer)] == ["store_refused"]
    old.server.hook = None
    assert old.collect() == {run_id: ""}
    assert old.verdict(run_id, tmp_path / "in") == "incomplete"


def test_a_pointer_that_makes_a_run_older_than_it_is_removes_nothing(old: OldStore, house: House) -> None:
    """The age of a plan would be what a writer of the store says."""
    run_id = old.put(house, 1, days_old=0.5)
    key = old.key(pointer_name(run_id))
    pointer = json.loads(old.server.objects[key][-1].data)
    old.server.overwrite(key, json.dumps({**pointer, "finished_at": "2020-01-01T00:00:00.000Z"}).encode())
    assert old.actions() == {run_id: "keep"}


def test_a_tombstone_of_a_stranger_lets_nothing_be_removed(old: OldStore, house: House) -> None:
    run_id = old.put(house, 1)
    old.server.overwrite(old.key(tombstone_name(run_id)), b'{"payload": "", "payloadType": "", "signatures": []}')
    assert old.actions() == {run_id: "keep"}
    assert old.server.objects[old.archive(run_id)]


@pytest.mark.parametrize(("folder", "why"), [("runs/", "holds no bundle"), ("tombstones/", "bundle_changed")])
def test_an_object_deleted_during_listing_is_not_reported_altered(old: OldStore, house: House, folder: str, why: str) -> None:
    run_id = old.put(house, 1)
    name = pointer_name(run_id) if folder == "runs/" else tombstone_name(run_id)
    if folder == "tombstones/":
        old.server.overwrite(old.key(name), b"{}")
    old.server.hook = lambda method, key, _: Reply(404) if (method, key) == ("GET", old.key(name)) else None
    (item,) = old.collector().plan()
    assert (item.action, why in item.why) == ("keep", True), item.why


def test_an_export_is_read_and_never_written() -> None:
    with pytest.raises(StoreError) as refused:
        open_store(parse_store("https://evidence.example.org/team"), StoresPolicy(version="1", stores=()))
    assert refused.value.reason == "store_read_only"
