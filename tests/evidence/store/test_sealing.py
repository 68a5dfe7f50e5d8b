"""A run is sealed when its bundle was read back out of the store: once, however often the gatekeeper dies on the way."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from gatewright.errors import StoreError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.store.objects import WRITE_ONCE, archive_name, pointer_name
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import Sealed
from tests.evidence.recorded_runs import RecordedRun, make_failed, make_success
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import PowerCutError, Reply, S3Server


def bundles_of(house: StoreHouse) -> list[str]:
    """The names of all bundles and pointers in the store, each with the number of its versions."""
    here = house.server.objects.items()
    return sorted(f"{key} x{len(versions)}" for key, versions in here if WRITE_ONCE not in key)


def one_bundle(house: StoreHouse, run: RecordedRun, sealed: Sealed) -> list[str]:
    names = (archive_name(sealed.manifest_sha256), pointer_name(run.run_id))
    return sorted(f"{house.key(name)} x1" for name in names)


def test_a_sealed_bundle_comes_back_out_of_the_store_and_verifies(house: StoreHouse, tmp_path: Path) -> None:
    run = make_success()
    sealed = asyncio.run(house.seal(run))
    assert sealed.location == f"s3://evidence/runs-of/team/{run.run_id}"
    result = verify(fetch(house.open(), run.run_id, tmp_path / "fetched"), [house.signer.public])
    assert (result.ok, result.run_id, result.manifest_sha256) == (True, run.run_id, sealed.manifest_sha256)
    assert bundles_of(house) == one_bundle(house, run, sealed)


def test_sealing_again_changes_nothing_in_the_store(house: StoreHouse) -> None:
    run = make_failed()
    first = asyncio.run(house.seal(run))
    before = bundles_of(house)
    assert asyncio.run(house.seal(run, "another-host")) == first
    assert bundles_of(house) == before


@pytest.mark.long
def test_a_gatekeeper_killed_at_any_request_leaves_what_the_next_one_finishes(house: StoreHouse, tmp_path: Path) -> None:
    """Before the request is served, and after it was, with the answer lost."""
    run, server = make_success(), house.server
    asyncio.run(house.seal(run))
    steps = len(server.requests)
    assert steps == 7
    for step in range(steps):
        for served in (False, True):
            server.objects.clear()
            die_at(server, step, served=served)
            with pytest.raises(PowerCutError):
                asyncio.run(dying(house, run))
            server.hook = None
            sealed = asyncio.run(house.seal(run, "the-next-one"))
            assert bundles_of(house) == one_bundle(house, run, sealed), (step, served)
    assert verify(fetch(house.open(), run.run_id, tmp_path / "fetched"), [house.signer.public]).ok


def die_at(server: S3Server, step: int, *, served: bool) -> None:
    """The request with this number is the last thing that the process that asks sees of the world."""
    left = step

    def hook(method: str, key: str, store: S3Server) -> Reply | None:
        nonlocal left
        left -= 1
        if left != -1:
            return None
        if served:
            # What the store would have done with it; nothing of ours hears of that.
            store.hook = lambda *_: Reply(418)
            return None
        return Reply(418)

    server.hook = hook


async def dying(house: StoreHouse, run: RecordedRun) -> None:
    """A status that the store never gives ends the process in the place where it comes; so does an end that never came."""
    try:
        await house.seal(run, "the-dying-one")
    except StoreError as error:
        if "418" in error.message:
            raise PowerCutError from error
        raise
    raise PowerCutError


def test_a_store_that_loses_what_it_took_is_not_believed(house: StoreHouse) -> None:
    house.server.hook = lambda method, key, _: Reply(200) if method == "PUT" and "/bundles/" in key else None
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(make_success()))
    assert refused.value.reason == "stored_bundle_differs"
    assert not any("/runs/" in key for key in house.server.objects)


def test_a_pointer_that_is_lost_after_it_was_taken_seals_nothing(house: StoreHouse) -> None:
    house.server.hook = lambda method, key, _: Reply(200) if method == "PUT" and "/runs/" in key else None
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(make_success()))
    assert refused.value.reason == "stored_bundle_differs"


def test_a_store_that_lets_objects_be_written_over_gets_no_bundle(house: StoreHouse) -> None:
    house.server.conditional = False
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(make_success()))
    assert refused.value.reason == "store_not_write_once"
    assert bundles_of(house) == []


def test_an_archive_planted_under_the_name_of_a_bundle_seals_nothing(house: StoreHouse) -> None:
    run = make_success()
    sealed = asyncio.run(house.seal(run))
    house.server.objects.clear()
    house.server.overwrite(house.key(archive_name(sealed.manifest_sha256)), b"planted before the run ended")
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(run))
    assert refused.value.reason == "stored_bundle_differs"
    assert bundles_of(house) == [f"{house.key(archive_name(sealed.manifest_sha256))} x1"]


def test_a_foreign_bundle_under_a_runs_id_is_refused(house: StoreHouse, tmp_path: Path) -> None:
    """A writer with the store's credentials seals a story of its own first, with a key of its own."""
    run, stranger = make_success(), Signer(keys.create(tmp_path / "stranger.pem"))
    asyncio.run(house.seal(run, "the-stranger", stranger))
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(run))
    assert refused.value.reason == "stored_bundle_differs"
    assert "untrusted_key" in refused.value.message


def test_two_gatekeepers_with_two_keys_of_one_ring_leave_one_bundle(house: StoreHouse, tmp_path: Path) -> None:
    """The pointer that stands decides: the slower one takes the other's bundle for the run's, and withdraws its own."""
    run, other = make_success(), Signer(keys.create(tmp_path / "other.pem"))
    first = asyncio.run(house.seal(run))
    writer = house.writer("the-slower-one", other)
    second = asyncio.run(writer.seal(run.run, run.transitions, run.store, other, run.sequences))
    assert second == first
    assert bundles_of(house) == one_bundle(house, run, first)
    assert not (tmp_path / "the-slower-one" / "runs" / run.run_id / "manifest.json").exists()


def test_sealed_bundles_are_locked_where_the_policy_requires_it(house: StoreHouse) -> None:
    house.days = 30
    run = make_success()
    sealed = asyncio.run(house.seal(run))
    locks = {key: versions[-1].until for key, versions in house.server.objects.items() if versions[-1].until}
    assert sorted(locks) == sorted([house.key(archive_name(sealed.manifest_sha256)), house.key(pointer_name(run.run_id))])


@pytest.mark.parametrize("lack", ["locks", "keeps_locks"])
def test_a_store_that_does_not_lock_seals_nothing(house: StoreHouse, lack: str) -> None:
    """Be it that it refuses, or that it says nothing."""
    house.days = 30
    setattr(house.server, lack, False)
    with pytest.raises(StoreError) as refused:
        asyncio.run(house.seal(make_success()))
    assert refused.value.reason == "store_lock_refused"
    assert not any("/runs/" in key for key in house.server.objects)


def test_the_folder_is_removed_once_the_ledger_records_its_location(house: StoreHouse, tmp_path: Path) -> None:
    run, folder = make_success(), tmp_path / "gatekeeper" / "runs"
    sealed = asyncio.run(house.seal(run))
    writer = house.writer()
    assert writer.copies() == [run.run_id]
    asyncio.run(writer.settled(run.run_id, str(folder / run.run_id)))  # sealed before there was a store: its only copy
    assert (folder / run.run_id / "manifest.json").is_file()
    asyncio.run(writer.settled(run.run_id, sealed.location))
    assert writer.copies() == []


def test_an_archive_is_the_same_whenever_and_wherever_it_is_made(house: StoreHouse) -> None:
    run = make_success()
    sealed = asyncio.run(house.seal(run))
    name = house.key(archive_name(sealed.manifest_sha256))
    first = hashlib.sha256(house.server.objects[name][-1].data).hexdigest()
    house.server.objects.clear()
    asyncio.run(house.seal(run, "another-host"))
    assert hashlib.sha256(house.server.objects[name][-1].data).hexdigest() == first
