"""Real bundles of runs that a merge queue landed on a real branch."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.run.events import Landed
from tests.evidence.tampering import put, read_events, remake_manifest, sign_again, write_events
from tests.gatekeeper.queue.cluster import hurry, open_cluster
from tests.git.repositories import Repository

RUNS = tuple(f"run {number}" for number in range(6))
POLICY = QueuePolicy(batch_size=2, window=Window(start=3, least=3, most=3))


@dataclass(frozen=True)
class Landings:
    """Bundles by the name of their run: one push of six runs in three positions, and one before it and one after it."""

    bundles: dict[str, Path]
    signer: Signer
    key: keys.PublicKey
    repository: str

    def copy(self, name: str, folder: Path) -> Path:
        """A copy of a bundle, to change."""
        bundle = folder / self.bundles[name].name
        shutil.copytree(self.bundles[name], bundle)
        return bundle

    def with_receipt(self, bundle: Path, receipt: bytes) -> Verification:
        """Put another receipt in place, and everything that names it, signed by the gatekeeper's own key."""
        put(bundle / layout.QUEUE_RECEIPT, receipt)
        uri = f"artifact:sha256:{hashlib.sha256(receipt).hexdigest()}"
        records = [
            replace(each, payload={**each.payload, "receipt": uri}) if each.event_type == Landed.event_type else each
            for each in read_events(bundle)
        ]
        write_events(bundle, records, chained=True)
        remake_manifest(bundle)
        sign_again(bundle, self.signer)
        return verify(bundle, [self.key])


@pytest.fixture(scope="session")
def landings(tmp_path_factory: pytest.TempPathFactory, first_repository: Repository) -> Landings:
    folder = tmp_path_factory.mktemp("landings")

    async def land() -> dict[str, Path]:
        server = MemoryServer()
        await ensure_topology(MemoryBus(server))

        async def connect(_name: str) -> MemoryBus:
            return MemoryBus(server)

        async with open_cluster(connect, folder, copied(first_repository, folder), policy=POLICY) as cluster:
            await cluster.enqueue("before", {"before.txt": b"before"})
            await cluster.ended("before")
            await cluster.land_together(*RUNS)
            await cluster.enqueue("after", {"after.txt": b"after"})
            await cluster.ended("after")
            return {name: cluster.bundle(name) for name in ("before", *RUNS, "after")}

    with pytest.MonkeyPatch.context() as patched:
        hurry(patched.setattr)
        bundles = asyncio.run(land())
    private = keys.load(folder / "key.pem")
    return Landings(bundles, Signer(private), private.public, str(folder / "target.git"))


def copied(repository: Repository, folder: Path) -> Repository:
    path = folder / "source"
    shutil.copytree(repository.path, path, symlinks=True)
    return Repository(path, repository.home)
