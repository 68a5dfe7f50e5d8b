"""A home folder with bundles of runs that ended at chosen times, alone or with the real server whose ledger holds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatewright.app.retention.collection import Collector
from gatewright.app.retention.holds import HoldBook
from gatewright.app.retention.ledger_expiry import LedgerExpiry, LedgerItem
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.retention.store_collection import StoreCollector
from gatewright.app.retention.store_holds import StoreHoldBook
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import run_subject
from gatewright.client import Client
from gatewright.clock import timestamp
from gatewright.contracts import LegalHold, Transition, codec
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.recorded_runs import MAKERS, RecordedRun
from tests.evidence.store.conftest import StoreHouse
from tests.evidence.store.s3_server import S3Server, serving

NOW = datetime(2026, 6, 1, tzinfo=UTC)
#: After so many days the runs of an installation expire.
DAYS = 30
#: Keeps nothing that is older than a day.
STRICT = RetentionPolicy(keep_last=0, keep_days=1, keep_failed_days=1)


@dataclass
class StoppedClock:
    """A clock that stands still."""

    moment: datetime = NOW

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0


@dataclass
class House:
    """A home folder, its key, and runs to put into it."""

    home: Path
    key: keys.PrivateKey
    clock: StoppedClock = field(default_factory=StoppedClock)

    @property
    def root(self) -> Path:
        return self.home / "runs"

    @property
    def signer(self) -> Signer:
        return Signer(self.key)

    def seal(self, number: int, name: str = "success", *, days_old: float = 100) -> Path:
        """The bundle of run ``number``, made by ``name``, that ended ``days_old`` days ago."""
        run = self.recorded(number, name, days_old=days_old)
        sealing = BundleWriter(self.root).seal(run.run, run.transitions, run.store, self.signer)
        return Path(asyncio.run(sealing).location)

    def recorded(self, number: int, name: str = "success", *, days_old: float = 100) -> RecordedRun:
        """A run of the same events under another id and at another time."""
        return MAKERS[name](run=RecordedRun(key=str(number), start=NOW - timedelta(days=days_old)))

    def collector(self, policy: RetentionPolicy = STRICT) -> Collector:
        return Collector(self.home, [self.key.public], policy, self.clock, "operator")

    def actions(self, policy: RetentionPolicy = STRICT) -> dict[str, str]:
        return {item.run_id: item.action for item in self.collector(policy).plan()}

    def collect(self, policy: RetentionPolicy = STRICT) -> dict[str, str]:
        """Carry out the plan; run id -> code of what was not done, empty for what was."""
        collector = self.collector(policy)
        return {done.item.run_id: done.code for done in collector.carry_out(collector.plan(), self.signer)}


@pytest.fixture(scope="session")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> keys.PrivateKey:
    return keys.create(tmp_path_factory.mktemp("keys") / "gatekeeper.pem")


@pytest.fixture
def house(tmp_path: Path, private_key: keys.PrivateKey) -> House:
    home = tmp_path / "home"
    home.mkdir()
    return House(home, private_key)


@dataclass
class Installation:
    """A home folder with bundles, and the ledger of a real server that holds their runs."""

    house: House
    bus: JetStreamBus
    provisioner: Connection
    address: BusAddress
    store: StoreHouse | None = None

    def seed(self, identity: str) -> Path:
        return seed_file(bus_keys(self.house.home), identity)

    async def seal(self, number: int, *, days_old: float = 100, bundled: bool = True) -> str:
        """A sealed run in the ledger; ``bundled``: its bundle lies in the home folder, or in the store where there is one."""
        run = self.house.recorded(number, days_old=days_old)
        root = self.house.root if bundled else self.house.home / "elsewhere"
        for data in run.store.blobs.values():
            await self.bus.put_artifact(data)
        sequences = [await self._publish(transition) for transition in run.transitions]
        writer = self.store.writer() if self.store is not None and bundled else BundleWriter(root)
        sealed = await writer.seal(run.run, run.transitions, run.store, self.house.signer, sequences)
        run.step(
            e.LabelledEvent(
                e.BundleSealed(manifest_sha256=sealed.manifest_sha256, signer=sealed.signer, location=sealed.location)
            )
        )
        await self._publish(run.transitions[-1])
        return run.run_id

    async def _publish(self, transition: Transition) -> int:
        ack = await self.bus.publish(
            run_subject(transition.run_id),
            codec.encode(transition),
            schema="transition.v1",
            message_id=f"{transition.run_id}:{transition.number}",
        )
        return ack.sequence

    def expiry(self) -> LedgerExpiry:
        return LedgerExpiry(self.bus, self.provisioner, self.evidence, DAYS, self.house.clock, "keeper")

    @property
    def evidence(self) -> Collector | StoreCollector:
        if self.store is None:
            return self.house.collector()
        return StoreCollector(self.store.open(), [self.house.signer.public], STRICT, self.house.clock, "keeper")

    async def round(self) -> dict[str, ItemOutcome[LedgerItem]]:
        expiry = self.expiry()
        return {done.item.run_id: done for done in await expiry.carry_out(await expiry.plan())}

    async def reasons(self) -> dict[str, str]:
        """Run id -> why it stays; empty for one that would go."""
        return {item.run_id: "" if item.action == "expire" else item.why for item in await self.expiry().plan()}

    async def kinds(self, run_id: str) -> list[str]:
        """The kinds of the events that the ledger has of a run."""
        return [event.event_type for event in await Client(self.bus).events(run_id)]

    def hold(self, run_id: str) -> None:
        act = LegalHold(run_id=run_id, act="place", reason="a dispute", by="counsel", at=timestamp(NOW))
        if self.store is None:
            HoldBook(self.house.home).write(act)
        else:
            StoreHoldBook(self.store.open()).write(act)


@pytest.fixture
async def installation(house: House, tmp_path: Path) -> AsyncIterator[Installation]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await NatsServer.start(tmp_path / "nats", keys=house.home / "bus"))
        await ensure_topology(server.address(PROVISIONER))
        bus = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
        stack.push_async_callback(bus.close)
        provisioner = await Connection.open(server.address(PROVISIONER), name="expiry")
        stack.push_async_callback(provisioner.close)
        yield Installation(house, bus, provisioner, server.address(PROVISIONER))


@pytest.fixture
def in_store(installation: Installation, tmp_path: Path) -> Iterator[Installation]:
    """The same, with bundles in a store that speaks S3."""
    with serving(S3Server()) as server:
        installation.store = StoreHouse(server, tmp_path, installation.house.signer)
        yield installation
