"""A store that speaks S3 in this process, and a writer that seals into it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.address import StoreAddress, parse_store
from gatewright.evidence.store.objects import ObjectStore
from gatewright.evidence.store.policy import RetentionLock, StoreCredentials, StoreEntry
from gatewright.evidence.store.publishing import BundlePublisher
from gatewright.evidence.store.s3 import S3Store
from gatewright.evidence.store.storing_writer import StoringWriter
from gatewright.evidence.writer import Sealed
from gatewright.policy_files import FileKey
from tests.evidence.recorded_runs import RecordedRun
from tests.evidence.store.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, serving


@dataclass
class StoreHouse:
    """A store, and a folder of the gatekeeper that seals into it."""

    server: S3Server
    folder: Path
    signer: Signer
    days: int = 0

    @property
    def address(self) -> StoreAddress:
        return parse_store(f"s3://{BUCKET}/runs-of/team")

    @property
    def entry(self) -> StoreEntry:
        access, secret = self.folder / "access.key", self.folder / "secret.key"
        access.write_text(ACCESS_KEY)
        secret.write_text(SECRET_KEY)
        return StoreEntry(
            places=(str(self.address),),
            endpoint=self.server.endpoint,
            addressing="path",
            credentials=StoreCredentials(access_key=FileKey(file=access), secret_key=FileKey(file=secret)),
            lock=RetentionLock(days=self.days) if self.days else None,
        )

    def open(self) -> ObjectStore:
        return S3Store.open(self.address, self.entry)

    def writer(self, name: str = "gatekeeper", signer: Signer | None = None) -> StoringWriter:
        trusted = [self.signer.public, (signer or self.signer).public]
        home = self.folder / name
        publisher = BundlePublisher(self.open(), home / "outgoing", lambda: trusted, locked=self.days > 0)
        return StoringWriter(home / "runs", self.address, publisher)

    async def seal(self, run: RecordedRun, name: str = "gatekeeper", signer: Signer | None = None) -> Sealed:
        return await self.writer(name, signer).seal(run.run, run.transitions, run.store, signer or self.signer, run.sequences)

    def key(self, name: str) -> str:
        return self.address.key(name)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving(S3Server()) as running:
        yield running


@pytest.fixture
def house(server: S3Server, tmp_path: Path, signer: Signer) -> StoreHouse:
    return StoreHouse(server, tmp_path, signer)
