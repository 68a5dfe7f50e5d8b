"""A gatekeeper whose disk fails: killed at any step of writing, or without room. Its runs end, and are sealed later."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from gatewright.evidence import keys, layout
from gatewright.evidence.disk import Disk
from gatewright.evidence.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger
from services.gatekeeper.conductor import Conductor
from services.gatekeeper.lookout import Lookout
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.evidence.crashing_disk import CrashingDisk, PowerCutError
from tests.evidence.full_disk import FullDisk
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


def on_disk(conductor: Conductor, runs: Path, disk: Disk | None = None) -> Conductor:
    """The same gatekeeper, started anew, with this disk: it knows what the ledger knows."""
    return dataclasses.replace(conductor, ledger=Ledger(conductor.bus), bundles=BundleWriter(runs, disk), owed={})


async def test_a_gatekeeper_killed_at_any_step_of_writing_seals_the_run_after_its_start(
    repository: Repository, tmp_path: Path
) -> None:
    for steps in range(1000):
        folder = tmp_path / str(steps)
        async with open_gatekeeper(repository, folder) as gatekeeper:
            runs = folder / "runs"
            first = on_disk(gatekeeper.conductor, runs, CrashingDisk(steps, "halved"))
            crashed = await dies(dataclasses.replace(gatekeeper, conductor=first), repository)
            public = keys.load(folder / "key.pem").public
            if crashed and (runs / RUN / layout.MANIFEST).exists():
                assert verify(runs / RUN, [public]).ok, steps
            second = on_disk(gatekeeper.conductor, runs)
            await Lookout(second).resume()
            run = (await second.ledger.load(RUN)).run
            assert run is not None
            assert run.sealed is not None, steps
            assert verify(runs / RUN, [public]).ok, steps
        shutil.rmtree(folder)
        if not crashed:
            assert steps > 30
            return
    pytest.fail("it never ended")


async def dies(gatekeeper: Gatekeeper, repository: Repository) -> bool:
    try:
        await gatekeeper.submit(contract_on(repository, allowed_paths=("../outside",)))
    except PowerCutError:
        return True
    return False


async def test_a_full_disk_ends_the_run_and_the_bundle_comes_when_there_is_room(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        disk, runs = FullDisk(), tmp_path / "runs"
        conductor = on_disk(gatekeeper.conductor, runs, disk)
        full = dataclasses.replace(gatekeeper, conductor=conductor)
        run = await full.submit(contract_on(repository))
        assert run.status == "FAILED"
        assert run.failure is not None
        assert run.failure.code == "evidence_unwritable"
        assert "No space left on device" in run.failure.message
        assert gatekeeper.nothing_landed()
        assert list(conductor.owed) == [RUN]
        assert not [path for path in runs.rglob("*") if path.name in {layout.MANIFEST, *layout.ENVELOPES}]
        await conductor.pay_debts()
        assert list(conductor.owed) == [RUN]
        disk.make_room()
        await conductor.pay_debts()
        assert conductor.owed == {}
        assert verify(runs / RUN, [keys.load(tmp_path / "key.pem").public]).ok
        run = await full.run()
        assert run.sealed is not None


async def test_a_disk_that_fills_up_after_the_landing_takes_nothing_back(repository: Repository, tmp_path: Path) -> None:
    """What has landed has landed: the run stays a success, and its bundle is owed."""
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        disk = FullDisk(1_000_000)
        conductor = on_disk(gatekeeper.conductor, tmp_path / "runs", disk)
        full = dataclasses.replace(gatekeeper, conductor=conductor)
        await full.submit(contract_on(repository))
        await full.plan()
        await full.work(full.patch({"README.md": b"changed\n"}))
        await full.review()
        disk.steps = 0
        run = await full.test()
        assert (run.status, run.failure.code if run.failure else "") in {("SUCCESS", ""), ("FAILED", "evidence_unwritable")}
        disk.make_room()
        await conductor.pay_debts()
        sealed = await full.run()
        assert sealed.sealed is not None
        assert sealed.status == run.status
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).ok


async def test_a_gatekeeper_starts_on_a_full_disk_and_pays_its_debts_later(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        runs = tmp_path / "runs"
        first = on_disk(gatekeeper.conductor, runs, FullDisk())
        await dataclasses.replace(gatekeeper, conductor=first).submit(contract_on(repository))
        disk = FullDisk()
        second = on_disk(gatekeeper.conductor, runs, disk)
        await Lookout(second).resume()
        assert list(second.owed) == [RUN]
        disk.make_room()
        await second.pay_debts()
        assert second.owed == {}
