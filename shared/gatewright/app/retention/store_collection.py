"""One round of collecting old bundles in a store: inventory, plan, execution.

The rules are those of a folder. A bundle that the store itself locks stays regardless of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gatewright.app.retention.inventory import InventoryItem, Status
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import Item, RetentionPolicy, make_plan
from gatewright.app.retention.store_holds import StoreHoldBook
from gatewright.clock import Clock, timestamp
from gatewright.contracts import LegalHold, RunManifest, Tombstone, codec
from gatewright.errors import GatewrightError, StoreError, UnavailableError
from gatewright.evidence import layout, tombstone
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.store.fetching import fetch_archive, stored_pointer
from gatewright.evidence.store.objects import RUNS, ObjectLock, ObjectStore, archive_name, tombstone_name
from gatewright.evidence.store.pointer import BundlePointer
from gatewright.evidence.verification.verify import verify

#: Reasons why a pointer cannot be used. Its run is reported, and stops no other.
_POINTER_FAULTS = frozenset({"stored_bundle_altered", "stored_bundle_missing", "layout_unknown"})
_STATUS: dict[str, Status] = {"SUCCESS": "SUCCESS", "FAILED": "FAILED", "ABORTED": "ABORTED"}


@dataclass
class StoreCollector:
    """``trusted`` are the keys that bundles may be signed by, ``person`` is who collects."""

    store: ObjectStore
    trusted: Sequence[PublicKey]
    policy: RetentionPolicy
    clock: Clock
    person: str
    _pointers: dict[str, BundlePointer] = field(default_factory=dict)
    _manifests: dict[str, RunManifest] = field(default_factory=dict)
    _locked: dict[str, str] = field(default_factory=dict)

    def plan(self) -> tuple[Item, ...]:
        """Return what would be done now, without changes. Raises ConfigurationError (``holds_unreadable``), StoreError."""
        held = StoreHoldBook(self.store).held()
        items = make_plan(self._inventory(), held, self.policy, self.clock.now(), self._fault)
        return tuple(
            replace(item, action="keep", why=self._locked[item.run_id]) if item.run_id in self._locked else item
            for item in items
        )

    def carry_out(self, items: Sequence[Item], signer: Signer) -> tuple[ItemOutcome[Item], ...]:
        """Execute ``items`` of ``plan`` that still qualify. A failure of one does not stop the others.

        Raises ConfigurationError (``holds_unreadable``).
        """
        done = []
        for item in items:
            if item.action == "keep":
                continue
            try:
                self._remove(item, signer)
            except UnavailableError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
            else:
                done.append(ItemOutcome(item))
        return tuple(done)

    def bundles(self, run_ids: Collection[str]) -> tuple[InventoryItem, ...]:
        """Return the entries of these runs in the store. Raises StoreError."""
        return self._inventory(run_ids)

    def held(self) -> Mapping[str, LegalHold]:
        """Run id -> what holds its bundle. Raises ConfigurationError (``holds_unreadable``), StoreError."""
        return StoreHoldBook(self.store).held()

    def fault(self, entry: InventoryItem) -> str:
        """Return why a sealed bundle fails verification, whether or not the store locks it; empty if it passes."""
        try:
            return self._why_unverified(self._pointers[entry.run_id])
        except GatewrightError as error:
            return error.reason

    def holds_stand_still(self) -> AbstractContextManager[object]:
        """Do nothing: a store has no lock, and a hold added meanwhile keeps the bundle, which is complete."""
        return nullcontext()

    def _remove(self, item: Item, signer: Signer) -> None:
        """Write the tombstone once, check for a new hold, remove the archive and check that it is gone.

        Until the archive is removed the bundle is complete; the pointer stays, so that no other bundle takes the run's
        place.
        """
        name, stone = archive_name(self._pointers[item.run_id].manifest_sha256), tombstone_name(item.run_id)
        fresh = item.action == "prune"
        if fresh and not self.store.create(stone, tombstone.sign_tombstone(self._stone(item), signer)):  # 1
            raise UnavailableError(f"{item.run_id} is being removed by another", code="bundle_changed")
        try:
            if StoreHoldBook(self.store).held(item.run_id):  # 2
                raise UnavailableError(f"{item.run_id} is on hold now", code="bundle_changed")
            self.store.remove(name)  # 3
        except GatewrightError:
            if fresh and self.store.lock_of(name) is not None:
                self.store.remove(stone)
            raise
        if self.store.lock_of(name) is not None:
            raise StoreError(
                f"the store confirmed the removal of the bundle of {item.run_id}, but still has it", code="store_refused"
            )

    def _inventory(self, run_ids: Collection[str] | None = None) -> tuple[InventoryItem, ...]:
        stones = set(self.store.names("tombstones/"))
        archives = set(self.store.names("bundles/"))
        wanted = (name for name in sorted(self.store.names(RUNS)) if run_ids is None or _run_of(name) in run_ids)
        return tuple(self._entry(name, stones, archives) for name in wanted)

    def _entry(self, name: str, stones: set[str], archives: set[str]) -> InventoryItem:
        run_id = _run_of(name)
        folder = Path(name)
        try:
            pointer = stored_pointer(self.store, run_id)
            finished = datetime.fromisoformat(pointer.finished_at)
        except (StoreError, ValueError) as error:
            if not isinstance(error, StoreError):
                return InventoryItem(run_id, folder, "odd", "its pointer names no time")
            if error.reason not in _POINTER_FAULTS:
                raise
            return InventoryItem(run_id, folder, "odd", error.message)
        if not layout.is_safe(run_id) or pointer.status not in _STATUS or finished.tzinfo is None:
            return InventoryItem(run_id, folder, "odd", "its pointer is not that of a sealed run")
        self._pointers[run_id] = pointer
        here = archive_name(pointer.manifest_sha256) in archives
        if tombstone_name(run_id) in stones:
            return InventoryItem(run_id, folder, "half_pruned" if here else "pruned", size=pointer.size if here else 0)
        if not here:
            return InventoryItem(run_id, folder, "odd", "the store has lost its archive")
        status = _STATUS[pointer.status]
        return InventoryItem(
            run_id, folder, "sealed", "", pointer.size, status, finished, manifest_sha256=pointer.manifest_sha256
        )

    def _fault(self, entry: InventoryItem) -> str:
        """Return why an entry's evidence forbids its removal; empty if it does not, or if the store locks it."""
        pointer = self._pointers[entry.run_id]
        if words := _lock_words(self.store.lock_of(archive_name(pointer.manifest_sha256)), timestamp(self.clock.now())):
            self._locked[entry.run_id] = words
            return ""
        try:
            return self._forged_stone(entry) if entry.state == "half_pruned" else self._why_unverified(pointer)
        except GatewrightError as error:
            return error.reason

    def _forged_stone(self, entry: InventoryItem) -> str:
        data = self.store.read(tombstone_name(entry.run_id))
        if data is None:
            return "bundle_changed"  # it was there when the store was listed
        stone, _ = tombstone.open_tombstone(data, self.trusted)
        same = (stone.run_id, stone.manifest_sha256) == (entry.run_id, self._pointers[entry.run_id].manifest_sha256)
        return "" if same else "other_run"

    def _why_unverified(self, pointer: BundlePointer) -> str:
        with tempfile.TemporaryDirectory(prefix="gatewright-gc-") as scratch:
            folder = Path(scratch) / pointer.run_id
            fetch_archive(self.store, pointer, folder)
            result = verify(folder, self.trusted)
            if not result.ok:
                return result.findings[0].code
            manifest = codec.decode((folder / layout.MANIFEST).read_bytes(), RunManifest)
        if manifest.finished_at != pointer.finished_at:
            return "stored_bundle_altered"  # its age would rest on the store's word alone
        self._manifests[pointer.run_id] = manifest
        return ""

    def _stone(self, item: Item) -> Tombstone:
        manifest, pointer = self._manifests[item.run_id], self._pointers[item.run_id]
        if manifest.integrity is None:
            raise UnavailableError(f"{item.run_id} is not sealed", code="bundle_changed")
        return Tombstone(
            run_id=item.run_id,
            manifest_sha256=pointer.manifest_sha256,
            chain_head=manifest.integrity.chain_head,
            chain_length=manifest.integrity.chain_length,
            status=_STATUS[pointer.status],
            finished_at=manifest.finished_at or "",
            pruned_at=timestamp(self.clock.now()),
            pruned_by=self.person,
            reason=item.why,
            files=len(manifest.integrity.files),
            size=sum(file.size for file in manifest.integrity.files),
        )


def _run_of(name: str) -> str:
    """Return the run whose pointer has this name."""
    return name.removeprefix(RUNS).removesuffix(".json")


def _lock_words(lock: ObjectLock | None, now: str) -> str:
    """Why the store will not let go of an object; empty where it will."""
    if lock is None:
        return ""
    if lock.legal_hold:
        return "the store itself has it on legal hold"
    if lock.until and datetime.fromisoformat(lock.until) > datetime.fromisoformat(now):
        return f"the store has it locked until {lock.until}"
    return ""
