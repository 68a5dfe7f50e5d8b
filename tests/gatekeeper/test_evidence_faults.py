"""A gatekeeper whose disk fails: killed at any step of writing, or without room. Its runs end, and are sealed later."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from pathlib import Path

import pytest

from gatewright.contracts import AbortRequest
from gatewright.errors import HostError, UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.disk import Disk
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Continue
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.evidence.crashing_disk import CrashingDisk, PowerCutError
from tests.evidence.full_disk import FullDisk
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

ABORT = AbortRequest(run_id=RUN, reason="enough of it", requested_by="tests")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


def on_disk(orchestrator: Orchestrator, runs: Path, disk: Disk | None = None) -> Orchestrator:
    """The same gatekeeper, started anew, with this disk: it knows what the ledger knows."""
    ledger, bundles = Ledger(orchestrator.bus), BundleWriter(runs, disk)
    return dataclasses.replace(orchestrator, ledger=ledger, bundles=bundles, owed={}, behind={})


async def test_a_gatekeeper_killed_while_writing_seals_after_its_restart(repository: Repository, tmp_path: Path) -> None:
    for steps in range(1000):
        folder = tmp_path / str(steps)
        async with open_gatekeeper(repository, folder) as gatekeeper:
            runs = folder / "runs"
            first = on_disk(gatekeeper.orchestrator, runs, CrashingDisk(steps, "halved"))
            crashed = await dies(dataclasses.replace(gatekeeper, orchestrator=first), repository)
            public = keys.load(folder / "key.pem").public
            if crashed and (runs / RUN / layout.MANIFEST).exists():
                assert verify(runs / RUN, [public]).ok, steps
            second = on_disk(gatekeeper.orchestrator, runs)
            await LedgerFollower(second).resume()
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


async def test_a_run_waits_for_a_full_disk_and_then_continues(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        disk, runs = FullDisk(), tmp_path / "runs"
        orchestrator = on_disk(gatekeeper.orchestrator, runs, disk)
        full = dataclasses.replace(gatekeeper, orchestrator=orchestrator)
        await full.submit(contract_on(repository))
        with pytest.raises(UnavailableError, match="No space left on device") as refused:
            await full.plan()
        assert refused.value.reason == "bundle_unwritable"
        waiting = await full.run()
        assert (waiting.ended, list(orchestrator.behind)) == (False, [RUN])
        await orchestrator.pay_debts()
        assert list(orchestrator.behind) == [RUN]
        disk.make_room()
        await orchestrator.pay_debts()
        assert orchestrator.behind == {}
        await full.plan()
        await full.work(full.patch({"README.md": b"changed\n"}))
        await full.review()
        run = await full.test()
        assert (run.status, run.failure) == ("SUCCESS", None)
        assert verify(runs / RUN, [keys.load(tmp_path / "key.pem").public]).ok


async def test_an_aborted_run_seals_once_the_disk_has_space(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        disk, runs = FullDisk(), tmp_path / "runs"
        orchestrator = on_disk(gatekeeper.orchestrator, runs, disk)
        full = dataclasses.replace(gatekeeper, orchestrator=orchestrator)
        await full.submit(contract_on(repository))
        await orchestrator.advance(RUN, AbortReceived(ABORT, "abort-1", "default"))
        assert (await full.run()).status == "ABORTED"
        assert (list(orchestrator.owed), orchestrator.behind) == ([RUN], {})
        assert not [path for path in runs.rglob("*") if path.name in {layout.MANIFEST, *layout.ENVELOPES}]
        disk.make_room()
        await orchestrator.pay_debts()
        assert orchestrator.owed == {}
        assert verify(runs / RUN, [keys.load(tmp_path / "key.pem").public]).ok


async def test_decisions_wait_until_the_host_has_disk_space(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        full = True

        def room() -> None:
            if full:
                raise HostError("0 MiB are free", code="disk_full")

        held = dataclasses.replace(gatekeeper, orchestrator=dataclasses.replace(gatekeeper.orchestrator, room=room))
        with pytest.raises(HostError):
            await held.submit(contract_on(repository))
        assert (await gatekeeper.orchestrator.ledger.load(RUN)).run is None
        full = False
        await held.submit(contract_on(repository))
        await held.plan()
        full = True
        with pytest.raises(HostError):
            await held.work(held.patch({"README.md": b"changed\n"}))
        assert not (await held.run()).ended


async def test_a_disk_that_fills_up_after_the_landing_takes_nothing_back(repository: Repository, tmp_path: Path) -> None:
    """What has landed has landed: the run stays a success, and its bundle is owed."""
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        disk = FullDisk(1_000_000)
        orchestrator = on_disk(gatekeeper.orchestrator, tmp_path / "runs", disk)
        full = dataclasses.replace(gatekeeper, orchestrator=orchestrator)
        await full.submit(contract_on(repository))
        await full.plan()
        await full.work(full.patch({"README.md": b"changed\n"}))
        await full.review()
        disk.steps = 0
        with contextlib.suppress(UnavailableError):
            await full.test()
        disk.make_room()
        await orchestrator.pay_debts()
        await orchestrator.advance(RUN, Continue("again"))
        sealed = await full.run()
        assert sealed.sealed is not None
        assert sealed.status == "SUCCESS"
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).ok


async def test_a_gatekeeper_starts_on_a_full_disk_and_pays_its_debts_later(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        runs = tmp_path / "runs"
        first = on_disk(gatekeeper.orchestrator, runs, FullDisk())
        await dataclasses.replace(gatekeeper, orchestrator=first).submit(contract_on(repository))
        await first.advance(RUN, AbortReceived(ABORT, "abort-1", "default"))
        disk = FullDisk()
        second = on_disk(gatekeeper.orchestrator, runs, disk)
        await LedgerFollower(second).resume()
        assert list(second.owed) == [RUN]
        disk.make_room()
        await second.pay_debts()
        assert second.owed == {}
