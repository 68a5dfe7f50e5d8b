"""The writer of bundles where they are kept in a store: the folder of this host is where a bundle is made, and goes afterwards.

The store is an outside system, which may be slow or hang: calls to it have their own threads, time limits and a circuit breaker
(``outside_calls``). A run counts as sealed when its bundle has been read back out of the store; only then is the ledger told. A
crash before that is made good by sealing again, one after it by ``settled``, which every gatekeeper calls for the runs that it
has folders of.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gatewright.contracts import Transition
from gatewright.errors import StoreError
from gatewright.evidence import layout
from gatewright.evidence.disk import Disk
from gatewright.evidence.projection.materials import ArtifactSource
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.store.address import StoreAddress, is_run
from gatewright.evidence.store.publishing import BundlePublisher
from gatewright.evidence.writer import BundleWriter, Sealed
from gatewright.file_locks import lock_folder
from gatewright.host_errors import host_errors
from gatewright.outside_calls import CallLimits, OutsideCalls
from gatewright.run.state import Run

#: Seconds that a caller waits for a small answer of the store, and for a bundle to be written and read back.
ANSWER_SECONDS = 30.0
TRANSFER_SECONDS = 1800.0
#: Calls to one store at a time.
_PLACES = 4


def store_calls(address: StoreAddress, places: int = _PLACES) -> OutsideCalls:
    """The calls to the store at ``address``, ``places`` at a time."""

    def unavailable(words: str) -> StoreError:
        return StoreError(words)

    def outage(error: BaseException) -> bool:
        return isinstance(error, StoreError) and error.reason == StoreError.code

    return OutsideCalls(f"the store {address}", CallLimits(places), unavailable, outage)


class StoringWriter(BundleWriter):
    """``address`` is where the bundles go, ``publisher`` puts them there, ``calls`` are those to the store."""

    outside = True

    def __init__(
        self,
        root: Path,
        address: StoreAddress,
        publisher: BundlePublisher,
        disk: Disk | None = None,
        calls: OutsideCalls | None = None,
    ) -> None:
        super().__init__(root, disk)
        self._folder_root = root.absolute()
        self._address = address
        self._publisher = publisher
        self._calls = calls or store_calls(address)
        self._known_good = False

    async def check(self) -> None:
        """Check that the store can be written, and refuses a second write. Raises StoreError.

        After outages this is the one request that probes the store, before the bundles that wait for it.
        """
        if self._known_good and self._calls.closed:
            return
        await self._calls.call(ANSWER_SECONDS, self._publisher.check)
        self._known_good = True

    async def seal(
        self,
        run: Run,
        transitions: Sequence[Transition],
        artifacts: ArtifactSource,
        signer: Signer,
        sequences: Sequence[int] = (),
    ) -> Sealed:
        """Make the bundle, as ``BundleWriter`` does, and put it into the store.

        Raises StoreError, too: the store cannot be had, or holds what it should not; nothing says then that the run is sealed.
        """
        there = await self._calls.call(ANSWER_SECONDS, self._publisher.standing, run.run_id)
        if there is not None and await self._calls.call(
            ANSWER_SECONDS, self._publisher.is_pruned, run.run_id, there.manifest_sha256
        ):
            return Sealed(there.manifest_sha256, there.signer, self._address.run(run.run_id))
        made = await super().seal(run, transitions, artifacts, signer, sequences)
        with host_errors():
            if there is None or there.manifest_sha256 == made.manifest_sha256:
                there = await self._calls.call(TRANSFER_SECONDS, self._publisher.put, Path(made.location))
            if there.manifest_sha256 != made.manifest_sha256:
                # The store takes one bundle of a run: another gatekeeper was quicker, with another key.
                await self._calls.call(TRANSFER_SECONDS, self._publisher.adopt, there)
                await self.withdraw(run.run_id, made.manifest_sha256)
        return Sealed(there.manifest_sha256, there.signer, self._address.run(run.run_id), made.packet)

    def copies(self) -> Sequence[str]:
        names = sorted(path.name for path in self._folder_root.iterdir()) if self._folder_root.is_dir() else []
        return [name for name in names if is_run(name)]

    async def settled(self, run_id: str, location: str) -> None:
        """The ledger says that the run is sealed, and where: what was made of its bundle here is not needed any more."""
        if location == self._address.run(run_id):
            await asyncio.to_thread(self._clear, self._folder_root / layout.safe(run_id))

    def _clear(self, folder: Path) -> None:
        """What cannot be removed now is in the way of nothing; ``gc`` tells of it."""
        if not folder.is_dir() or folder.is_symlink():
            return
        with contextlib.suppress(OSError):
            fd = lock_folder(folder)
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
