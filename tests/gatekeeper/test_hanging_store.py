"""A bundle store that hangs: its process is stopped, so it takes connections and answers nothing. Work goes on."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatewright.contracts import AbortRequest
from gatewright.errors import StoreError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store import storing_writer
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.store import Ledger
from gatewright.run.events import BundleSealed
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Submitted
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import S3Server
from tests.evidence.store.server_process import StoreProcess, store_process
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

#: Runs that wait to be sealed: more than the threads that everything else shares.
OTHERS = [f"run-{number:020}" for number in range(8)]
THREADS = 2
#: Seconds after which work that waits for the store would still wait.
PATIENCE = 90.0


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    with store_process() as running:
        yield running


def storing(gatekeeper: Gatekeeper, store: StoreProcess, folder: Path, host: str) -> Gatekeeper:
    """The gatekeeper, started anew on the host ``host``, with its bundles in the store."""
    orchestrator = dataclasses.replace(
        gatekeeper.orchestrator,
        ledger=Ledger(gatekeeper.bus),
        bundles=house_of(store, folder).writer(host),
        owed={},
        behind={},
        storing=set(),
        background=set(),
    )
    return dataclasses.replace(gatekeeper, orchestrator=orchestrator)


def house_of(store: StoreProcess, folder: Path) -> StoreHouse:
    return StoreHouse(S3Server(endpoint=store.endpoint), folder, Signer(keys.load(folder / "key.pem")))


async def end_others(gatekeeper: Gatekeeper, repository: Repository) -> None:
    """End eight runs at the same time, so that all of them wait to be sealed."""

    async def end(run_id: str) -> None:
        contract = contract_on(repository)
        await gatekeeper.orchestrator.advance(run_id, Submitted(run_id, "0" * 32, contract, "0" * 64, f"submit {run_id}"))
        abort = AbortRequest(run_id=run_id, reason="enough of it", requested_by="tests")
        await gatekeeper.orchestrator.advance(run_id, AbortReceived(abort, f"abort {run_id}", "default"))

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(end, OTHERS))


async def landed(gatekeeper: Gatekeeper, repository: Repository) -> Run:
    """Submit a run, give every answer that it needs, and return it."""
    async with asyncio.timeout(PATIENCE):
        await gatekeeper.submit(contract_on(repository))
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
        await gatekeeper.review()
        return await gatekeeper.test()


async def all_sealed(orchestrator: Orchestrator, run_ids: list[str]) -> None:
    while orchestrator.storing or orchestrator.owed:
        try:
            await orchestrator.pay_debts()
        except StoreError:
            await asyncio.sleep(0.1)
        await asyncio.gather(*orchestrator.background)
    for run_id in run_ids:
        run = (await orchestrator.ledger.load(run_id)).run
        assert run is not None
        assert run.sealed is not None


async def test_runs_begin_and_land_while_the_store_hangs(repository: Repository, store: StoreProcess, tmp_path: Path) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        keeping = storing(gatekeeper, store, tmp_path, "first")
        store.stop()
        await end_others(keeping, repository)
        run = await landed(keeping, repository)
        assert (run.status, run.sealed) == ("SUCCESS", None)
        orchestrator = keeping.orchestrator
        store.go_on()
        await all_sealed(orchestrator, [*OTHERS, RUN])
        bundle = fetch(house_of(store, tmp_path).open(), RUN, tmp_path / "in")
        assert verify(bundle, [keys.load(tmp_path / "key.pem").public]).ok


async def test_a_store_that_hangs_is_reported(
    repository: Repository, store: StoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing_writer, "ANSWER_SECONDS", 0.05)
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        keeping = storing(gatekeeper, store, tmp_path, "first")
        orchestrator = keeping.orchestrator
        store.stop()
        run = await landed(keeping, repository)
        await asyncio.gather(*orchestrator.background)
        assert (run.status, "no answer within 0.05 s" in orchestrator.owed[RUN]) == ("SUCCESS", True)
        with pytest.raises(StoreError, match="no answer within"):
            await orchestrator.pay_debts()
        store.go_on()


async def test_a_gatekeeper_that_starts_while_the_store_hangs_takes_up_work(
    repository: Repository, store: StoreProcess, tmp_path: Path
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        store.stop()
        killed = storing(gatekeeper, store, tmp_path, "first")
        await end_others(killed, repository)
        starting = storing(gatekeeper, store, tmp_path, "second")
        async with asyncio.timeout(PATIENCE):
            await LedgerFollower(starting.orchestrator).resume()
        assert (await landed(starting, repository)).status == "SUCCESS"
        store.go_on()
        await all_sealed(starting.orchestrator, [*OTHERS, RUN])
        await all_sealed(killed.orchestrator, [])


async def test_a_late_answer_does_not_wait_for_the_store(repository: Repository, store: StoreProcess, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        keeping = storing(gatekeeper, store, tmp_path, "first")
        store.stop()
        await keeping.submit(contract_on(repository))
        abort = AbortRequest(run_id=RUN, reason="enough of it", requested_by="tests")
        for number in range(3):
            async with asyncio.timeout(PATIENCE):
                await keeping.orchestrator.advance(RUN, AbortReceived(abort, f"abort {number}", "default"))
        store.go_on()
        await all_sealed(keeping.orchestrator, [RUN])


async def test_a_bundle_of_this_host_is_handed_out_while_the_store_hangs(
    repository: Repository, store: StoreProcess, tmp_path: Path
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await landed(gatekeeper, repository)
        assert run.sealed is not None
        house = house_of(store, tmp_path)
        archives = BundleArchives(tmp_path / "runs", tmp_path / "outgoing", house.open(), house.address)
        store.stop()
        stored = [
            BundleSealed(manifest_sha256=str(n) * 64, signer="k" * 64, location=house.address.run(OTHERS[n])) for n in range(8)
        ]
        hanging = [asyncio.ensure_future(archives.part(OTHERS[n], sealed, 0)) for n, sealed in enumerate(stored)]
        await asyncio.sleep(0)  # they begin
        async with asyncio.timeout(PATIENCE):
            part = await archives.part(RUN, run.sealed, 0)
        assert part.manifest_sha256 == run.sealed.manifest_sha256
        for asking in hanging:
            asking.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        store.go_on()
