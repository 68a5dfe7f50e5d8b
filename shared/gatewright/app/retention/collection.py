"""One round of collecting old bundles on a host: inventory, plan, execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.retention.holds import HoldBook
from gatewright.app.retention.inventory import InventoryItem, take_inventory
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import Item, RetentionPolicy, make_plan
from gatewright.app.retention.pruning import PruningDisk, finish, prune
from gatewright.clock import Clock, timestamp
from gatewright.contracts import LegalHold, Tombstone
from gatewright.errors import GatewrightError, UnavailableError
from gatewright.evidence import tombstone
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.verification.verify import verify


@dataclass(frozen=True)
class Collector:
    """``home`` is the home folder, ``trusted`` are the keys that its bundles may be signed by, ``person`` is who collects."""

    home: Path
    trusted: Sequence[PublicKey]
    policy: RetentionPolicy
    clock: Clock
    person: str

    @property
    def root(self) -> Path:
        return self.home / "runs"

    def plan(self) -> tuple[Item, ...]:
        """Return what would be done now, without changes. Raises ConfigurationError (``holds_unreadable``)."""
        held = HoldBook(self.home).held()
        return make_plan(self._inventory(), held, self.policy, self.clock.now(), self._fault)

    def carry_out(
        self, items: Sequence[Item], signer: Signer, disk: PruningDisk | None = None
    ) -> tuple[ItemOutcome[Item], ...]:
        """Execute ``items`` that still qualify: without a new hold, and unchanged.

        Raises ConfigurationError (``holds_unreadable``). A failure of one bundle does not stop the others.
        """
        book, done = HoldBook(self.home), []
        with book.locked():
            held = book.held()
            entries = {entry.run_id: entry for entry in self._inventory()}
            for item in items:
                if item.action == "keep":
                    continue
                try:
                    if item.run_id in held or item.run_id not in entries:
                        raise UnavailableError(f"{item.run_id} is on hold now, or gone", code="bundle_changed")  # noqa: TRY301
                    self._remove(item, entries[item.run_id], signer, disk)
                except UnavailableError as error:
                    done.append(ItemOutcome(item, code=error.reason, message=error.message))
                else:
                    done.append(ItemOutcome(item))
        return tuple(done)

    def bundles(self, run_ids: Collection[str]) -> tuple[InventoryItem, ...]:
        """Return the entries of these runs in the folder. Raises UnavailableError (``bundle_unwritable``)."""
        return tuple(entry for entry in self._inventory() if entry.run_id in run_ids)

    def held(self) -> Mapping[str, LegalHold]:
        """Run id -> what holds its bundle. Raises ConfigurationError (``holds_unreadable``)."""
        return HoldBook(self.home).held()

    def fault(self, entry: InventoryItem) -> str:
        """Why the sealed bundle ``entry`` does not prove what it claims; empty when it does."""
        return self._fault(entry)

    def holds_stand_still(self) -> AbstractContextManager[object]:
        """While it is open no hold is placed."""
        return HoldBook(self.home).standing_still()

    def _remove(self, item: Item, entry: InventoryItem, signer: Signer, disk: PruningDisk | None) -> None:
        if item.action == "finish":
            finish(entry, disk)
        else:
            prune(self.root, entry, self._stone(entry, item.why), signer, disk)

    def _inventory(self) -> tuple[InventoryItem, ...]:
        try:
            return take_inventory(self.root)
        except OSError as error:
            raise UnavailableError(f"{self.root} cannot be read: {error.strerror}", code="bundle_unwritable") from error

    def _fault(self, entry: InventoryItem) -> str:
        """Return why an entry's evidence forbids its removal; empty if it does not."""
        if entry.state == "half_pruned":
            try:
                found = tombstone.read_tombstone(entry.folder, self.trusted)
            except GatewrightError as error:
                return error.reason
            return "" if found is not None and found[0].run_id == entry.run_id else "other_run"
        result = verify(entry.folder, self.trusted)
        if result.ok and result.manifest_sha256 == entry.manifest_sha256:
            return ""
        return next((finding.code for finding in result.findings), "changing")

    def _stone(self, entry: InventoryItem, why: str) -> Tombstone:
        manifest = entry.manifest
        if manifest is None or manifest.integrity is None:
            raise UnavailableError(f"{entry.run_id} is not sealed", code="bundle_changed")
        return Tombstone(
            run_id=entry.run_id,
            manifest_sha256=entry.manifest_sha256,
            chain_head=manifest.integrity.chain_head,
            chain_length=manifest.integrity.chain_length,
            status=entry.status,
            finished_at=manifest.finished_at or "",
            pruned_at=timestamp(self.clock.now()),
            pruned_by=self.person,
            reason=why,
            files=len(manifest.integrity.files),
            size=sum(file.size for file in manifest.integrity.files),
        )
