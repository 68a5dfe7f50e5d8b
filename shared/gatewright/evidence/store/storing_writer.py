"""Bundle writer for bundles in a store: the folder on this host is temporary.

The store is an external system, which may be slow or hang: calls to it have their own threads, time limits and a circuit
breaker (``outside_calls``). A run is sealed when its bundle has been read back from the store; only then is the ledger updated.
After an earlier crash the run is sealed again. After a later crash ``settled`` cleans up; every gatekeeper calls it for the
runs with local folders.
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

#: Maximum seconds for a small response of the store, and for writing a bundle and reading it back.
ANSWER_SECONDS = 30.0
TRANSFER_SECONDS = 1800.0
#: Concurrent calls to one store.
_PLACES = 4


def store_calls(address: StoreAddress, places: int = _PLACES) -> OutsideCalls:
    """Return the call limiter of the store at ``address``, for ``places`` concurrent calls."""

    def unavailable(words: str) -> StoreError:
        return StoreError(words)

    def outage(error: BaseException) -> bool:
        return isinstance(error, StoreError) and error.reason == StoreError.code

    return OutsideCalls(f"the store {address}", CallLimits(places), unavailable, outage)


class StoringWriter(BundleWriter):
    """``address`` is the destination of bundles, ``publisher`` publishes them, ``calls`` limits calls to the store."""

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
        """Check that the store is writable and refuses to overwrite objects.

        After an outage this is the single request that probes the store, before the bundles that wait for it.

        Raises:
            StoreError: a check fails.
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
        """Build the bundle like ``BundleWriter`` and publish it to the store.

        Raises:
            StoreError: the store cannot be used or holds other data; the run is not recorded as sealed.
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
                # The store accepts one bundle per run: another gatekeeper published first, with another key.
                await self._calls.call(TRANSFER_SECONDS, self._publisher.adopt, there)
                await self.withdraw(run.run_id, made.manifest_sha256)
        return Sealed(there.manifest_sha256, there.signer, self._address.run(run.run_id), made.packet)

    def copies(self) -> Sequence[str]:
        names = sorted(path.name for path in self._folder_root.iterdir()) if self._folder_root.is_dir() else []
        return [name for name in names if is_run(name)]

    async def settled(self, run_id: str, location: str) -> None:
        """Delete the local copy after the ledger has confirmed the seal and its location."""
        if location == self._address.run(run_id):
            await asyncio.to_thread(self._clear, self._folder_root / layout.safe(run_id))

    def _clear(self, folder: Path) -> None:
        """Remove the folder. A failure is harmless; ``gc`` reports it."""
        if not folder.is_dir() or folder.is_symlink():
            return
        with contextlib.suppress(OSError):
            fd = lock_folder(folder)
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
