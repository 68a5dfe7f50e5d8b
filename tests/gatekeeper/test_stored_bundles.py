"""A gatekeeper that keeps its bundles in a store: killed between steps, with a store that is away, beside another one."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gatewright.bus.topology import run_subject
from gatewright.bus.versions import written_here
from gatewright.contracts import AbortRequest, Transition
from gatewright.errors import MalformedError, StoreError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.fetching import fetch
from gatewright.evidence.store.objects import WRITE_ONCE, tombstone_name
from gatewright.evidence.store.storing_writer import StoringWriter
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.store import Ledger, Position
from gatewright.run.events import BundleSealed
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import AbortReceived
from gatewright.services.gatekeeper.dispatch.dispatcher import UnderWay
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from tests.attacks.whole_gatekeeper import RUN, Gatekeeper, contract_on, open_gatekeeper
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import Reply, S3Server, serving
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

ABORT = AbortRequest(run_id=RUN, reason="enough of it", requested_by="tests")


class KilledError(BaseException):
    """The end of the process: nothing may catch it."""


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving(S3Server()) as running:
        yield running


def storing(gatekeeper: Gatekeeper, house: StoreHouse, name: str = "first") -> Gatekeeper:
    """The same gatekeeper, started anew on the host ``name``, with its bundles in the store."""
    return dataclasses.replace(gatekeeper, orchestrator=anew(gatekeeper.orchestrator, house.writer(name)))


def anew(orchestrator: Orchestrator, bundles: StoringWriter) -> Orchestrator:
    ledger = Ledger(orchestrator.bus)
    return dataclasses.replace(
        orchestrator, ledger=ledger, bundles=bundles, owed={}, behind={}, storing=set(), background=set()
    )


async def stored_beside(orchestrator: Orchestrator) -> None:
    """Return when each bundle that the gatekeeper stores in the background is stored, or owed."""
    while orchestrator.storing:
        await asyncio.gather(*orchestrator.background)


async def paid(orchestrator: Orchestrator) -> None:
    await orchestrator.pay_debts()
    await stored_beside(orchestrator)


def house_of(server: S3Server, folder: Path) -> StoreHouse:
    return StoreHouse(server, folder, Signer(keys.load(folder / "key.pem")))


async def aborted(gatekeeper: Gatekeeper, repository: Repository) -> Run:
    await gatekeeper.submit(contract_on(repository))
    await gatekeeper.orchestrator.advance(RUN, AbortReceived(ABORT, "abort-1", "default"))
    await stored_beside(gatekeeper.orchestrator)
    return await gatekeeper.run()


def stored(house: StoreHouse) -> list[int]:
    """How many versions there are of each archive and pointer."""
    return [len(versions) for key, versions in house.server.objects.items() if WRITE_ONCE not in key]


async def test_the_ledger_names_the_store_and_the_bundle_there_verifies(
    repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        house = house_of(server, tmp_path)
        run = await aborted(storing(gatekeeper, house), repository)
        assert run.sealed is not None
        assert run.sealed.location == f"{house.address}/{RUN}"
        result = verify(fetch(house.open(), RUN, tmp_path / "in"), [house.signer.public])
        assert (result.signer, result.manifest_sha256) == (house.signer.public.key_id, run.sealed.manifest_sha256)
        assert not (tmp_path / "first" / "runs" / RUN).exists()


async def test_a_run_ends_during_a_store_outage_and_seals_later(
    repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        house = house_of(server, tmp_path)
        keeping = storing(gatekeeper, house)
        server.hook = lambda *_: Reply(503)
        run = await aborted(keeping, repository)
        assert (run.status, run.sealed) == ("ABORTED", None)
        assert list(keeping.orchestrator.owed) == [RUN]
        with pytest.raises(StoreError):
            await keeping.orchestrator.pay_debts()
        assert list(keeping.orchestrator.owed) == [RUN]
        server.hook = None
        await paid(keeping.orchestrator)
        assert keeping.orchestrator.owed == {}
        assert (await keeping.run()).sealed is not None
        assert stored(house) == [1, 1]


async def test_a_debt_that_another_path_pays_meanwhile_is_no_error(
    repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    """The run is taken up as one that stands still, while its debt waits for its turn."""
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        keeping = storing(gatekeeper, house_of(server, tmp_path))
        server.hook = lambda *_: Reply(503)
        await aborted(keeping, repository)
        server.hook = None
        orchestrator = keeping.orchestrator
        await asyncio.gather(orchestrator.take_up(RUN, UnderWay(orchestrator.bus)), orchestrator.pay_debts())
        await stored_beside(orchestrator)
        await orchestrator.pay_debts()
        assert orchestrator.owed == {}
        assert (await keeping.run()).sealed is not None


async def test_a_debt_whose_history_cannot_be_read_stops_no_other_debt(
    repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        keeping = storing(gatekeeper, house_of(server, tmp_path))
        server.hook = lambda *_: Reply(503)
        await aborted(keeping, repository)
        server.hook = None
        orchestrator, unreadable = keeping.orchestrator, "run-00000000000000000bad"
        await gatekeeper.bus.publish(
            run_subject(unreadable), b"{}", schema="transition.v1", message_id="bad", headers=written_here()
        )
        with pytest.raises(MalformedError):
            await orchestrator.ledger.load(unreadable)
        orchestrator.owed.update({unreadable: "no room", RUN: orchestrator.owed.pop(RUN)})
        orchestrator.behind[unreadable] = "no room"
        await paid(orchestrator)
        assert (orchestrator.owed, orchestrator.behind) == ({}, {})
        assert (await keeping.run()).sealed is not None


@pytest.mark.parametrize("cut", ["before the ledger", "after the ledger"])
async def test_a_gatekeeper_killed_around_the_ledgers_word_leaves_one_bundle(
    repository: Repository, server: S3Server, tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        house = house_of(server, tmp_path)
        first = storing(gatekeeper, house)

        async def killed(*_: object) -> None:
            raise KilledError

        with monkeypatch.context() as patch:
            if cut == "after the ledger":
                patch.setattr(first.orchestrator.bundles, "settled", killed)
            else:
                patch.setattr(type(first.orchestrator.ledger), "append", _dying_append(type(first.orchestrator.ledger)))
            with pytest.raises(KilledError):
                await aborted(first, repository)
        assert stored(house) == [1, 1]
        # The same host again, and one that has never heard of the run.
        for name in ("first", "second"):
            follower = LedgerFollower(storing(gatekeeper, house, name).orchestrator)
            await follower.resume()
            await stored_beside(follower.orchestrator)
            await follower.settle()
            assert not (tmp_path / name / "runs" / RUN).exists()
        run = await gatekeeper.run()
        assert run.sealed is not None
        assert stored(house) == [1, 1]


def _dying_append(kind: type[Ledger]) -> Callable[[Ledger, Position, Transition], Awaitable[Position]]:
    """The ledger's append, which the process does not live to see when it would say that the bundle is sealed."""
    real = kind.append

    async def append(ledger: Ledger, position: Position, transition: Transition) -> Position:
        if any(event.event_type == BundleSealed.event_type for event in transition.events):
            raise KilledError
        return await real(ledger, position, transition)

    return append


async def test_two_gatekeepers_that_seal_the_same_run_leave_one_bundle(
    repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        house = house_of(server, tmp_path)
        server.hook = lambda *_: Reply(503)
        first, second = storing(gatekeeper, house, "first"), storing(gatekeeper, house, "second")
        await aborted(first, repository)
        second.orchestrator.owed[RUN] = "it is known to be owed"
        server.hook = None
        await paid(second.orchestrator)
        await paid(first.orchestrator)
        assert (first.orchestrator.owed, second.orchestrator.owed) == ({}, {})
        assert stored(house) == [1, 1]


@pytest.mark.parametrize(
    ("lost", "words"), [("runs/", "holds no bundle"), ("bundles/", "has lost it"), ("pruned", "it was pruned")]
)
async def test_a_bundle_that_is_missing_is_not_reported_as_altered(
    lost: str, words: str, repository: Repository, server: S3Server, tmp_path: Path
) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        house = house_of(server, tmp_path)
        run = await aborted(storing(gatekeeper, house), repository)
        assert run.sealed is not None
        if lost == "pruned":
            server.overwrite(house.key(tombstone_name(RUN)), b"{}")
        folder = "bundles/" if lost == "pruned" else lost
        for key in [key for key in server.objects if f"/{folder}" in key]:
            del server.objects[key]
        archives = BundleArchives(tmp_path / "runs", tmp_path / "parts", house.open(), house.address)
        with pytest.raises(StoreError, match=words) as refused:
            await archives.part(RUN, run.sealed, 0)
        assert refused.value.reason == "stored_bundle_missing"
