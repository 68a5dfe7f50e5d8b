"""The data of a run's page besides the ledger: its bundle, and the change as the gatekeeper stored it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gatewright.app.console.change_browser import MOST_PATCH, MOST_REMEMBERED, ChangeIndex, index_change
from gatewright.app.deployment.deploying import deployment_records
from gatewright.app.feed.link import LedgerLink
from gatewright.app.publication.publishing import PUBLICATION
from gatewright.app.report.account import BundleAccount, read_account
from gatewright.app.signed_records import KEYS, PUBLICATIONS, Record, read_records
from gatewright.contracts import Deployment, Publication
from gatewright.errors import GatewrightError, MalformedError
from gatewright.evidence import layout
from gatewright.evidence.signing import keyring
from gatewright.evidence.store.archive import pack, unpack
from gatewright.evidence.store.objects import MAX_ARCHIVE_BYTES
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.host_errors import host_errors
from gatewright.run.state import Run
from gatewright.view.detail import RunDetail


class RunResults(NamedTuple):
    """What this host published of a run, and where it deployed its commit."""

    published: tuple[Record[Publication], ...]
    deployed: tuple[Record[Deployment], ...]


@dataclass(slots=True)
class BundleShelf:
    """The bundles of a local system. ``home`` is its home folder, whose keys are trusted; ``key`` its signing key."""

    link: LedgerLink
    home: Path
    key: Path
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    def folder(self, run: Run) -> Path | None:
        """Return the folder of a run's bundle if it is on this host; paths in the ledger are not followed."""
        place = self.home / "runs" / run.run_id
        return place if run.sealed is not None and place.is_dir() and not place.is_symlink() else None

    async def account(self, run: Run) -> BundleAccount | None:
        """Return the content of the bundle; None if it is not on this host, or unreadable."""
        folder = self.folder(run)
        if folder is None:
            return None
        try:
            return await asyncio.to_thread(read_account, folder)
        except MalformedError:
            return None

    async def verified(self, run: Run) -> Verification:
        """Verify it with the keys that this home trusts, one bundle at a time. Raises MalformedError where it is not here."""
        folder = self.folder(run)
        if folder is None:
            words = f"the bundle of {run.run_id} is not on this host: `gatewright verify {run.run_id}` where it is"
            raise MalformedError(words, code="not_a_bundle")
        async with self._one_at_a_time:
            return await asyncio.to_thread(lambda: verify(folder, keyring.trusted_keys(self.home, self.key)))

    async def results(self, run: Run) -> RunResults:
        """Return the records of what this host did with the results of a run; a record that does not verify has a code."""
        try:
            return await asyncio.to_thread(self._read_results, run.run_id)
        except GatewrightError as error:  # a file of a key is none
            return RunResults((Record(KEYS, None, error.reason),), ())

    def _read_results(self, run_id: str) -> RunResults:
        published = read_records(self.home, PUBLICATIONS, PUBLICATION, run_id)
        return RunResults(tuple(published), tuple(deployment_records(self.home, run_id)))

    async def archive(self, run: Run) -> Path:
        """Write the bundle into one new file, in a folder named after the run, for the caller to remove.

        Raises GatewrightError, as HostError if the disk is full.
        """
        folder = self.folder(run)
        with host_errors():
            file = Path(tempfile.mkdtemp(prefix="gatewright-console-")) / f"{run.run_id}.zip"
            try:
                with tempfile.TemporaryDirectory(dir=file.parent) as passing:
                    if folder is None:
                        folder = await self._receive_bundle(run, Path(passing))
                    await asyncio.to_thread(pack, folder, file, top=run.run_id)
            except (GatewrightError, OSError):
                discard(file)
                raise
        return file

    async def _receive_bundle(self, run: Run, into: Path) -> Path:
        archive = into / "received.zip"
        with archive.open("xb") as opened:
            await self.link.client.receive_bundle(run.run_id, opened, limit=MAX_ARCHIVE_BYTES)
        await asyncio.to_thread(unpack, archive, into / "bundle")
        return into / "bundle"


@dataclass(slots=True)
class ChangeShelf:
    """A bounded cache of the most recently viewed changes, by their artifact."""

    link: LedgerLink
    _known: OrderedDict[str, ChangeIndex] = field(default_factory=OrderedDict)

    async def index(self, detail: RunDetail, account: BundleAccount | None = None) -> ChangeIndex | None:
        """The canonical change of a run; None: there is none, or this identity may not read artifacts."""
        candidate = detail.run.candidate
        if candidate is None:
            return None
        found = self._known.pop(candidate.patch, None) or await self._read_index(candidate.patch, account)
        if found is None:
            return None
        self._known[candidate.patch] = found
        while len(self._known) > 1 and sum(len(each.data) for each in self._known.values()) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def _read_index(self, uri: str, account: BundleAccount | None) -> ChangeIndex | None:
        if account is not None and layout.PATCH in account.files:
            excerpt = await asyncio.to_thread(account.excerpt, layout.PATCH, 2 * MOST_PATCH)
            return await asyncio.to_thread(index_change, excerpt.head, excerpt.size)
        with contextlib.suppress(GatewrightError):
            patch = await self.link.client.get_artifact(uri)
            return await asyncio.to_thread(index_change, patch, len(patch))
        return None


def discard(file: Path) -> None:
    """Remove an archive with its folder."""
    file.unlink(missing_ok=True)
    file.parent.rmdir()
