"""One round of letting sealed runs expire from the ledger: which they are, why each of the others stays, and doing it.

A run expires when it is sealed, old enough by its signed manifest, its bundle is stored where bundles are kept and verifies, is
the one that the ledger names, and is on no hold. Two steps make it expire: the gatekeeper's identity appends the run's last
transition, which says what must be known for good; then the provisioner's takes away all before that. Cut short in between, the
run is whole, and the next round goes on. Of two rounds at once the ledger takes one transition.

The evidence is asked in a thread: a store is slow, and a loop that stands still for it would lose both connections to the bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

from gatewright.app.retention.expiry_policy import why_kept
from gatewright.app.retention.inventory import InventoryItem
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.removal import entries_by_run, remove_entries
from gatewright.bus.port import Bus
from gatewright.clock import Clock
from gatewright.contracts import LegalHold
from gatewright.errors import ConflictError, GatewrightError, UnavailableError
from gatewright.ledger.expiry import expire
from gatewright.ledger.store import Ledger, Position


class StoredEvidence(Protocol):
    """Where sealed bundles are kept: a home folder or a store."""

    def bundles(self, run_ids: Collection[str]) -> Sequence[InventoryItem]:
        """What lies there of these runs."""

    def held(self) -> Mapping[str, LegalHold]:
        """Run id -> what holds its bundle. Raises ConfigurationError (``holds_unreadable``)."""

    def fault(self, entry: InventoryItem) -> str:
        """Why a sealed bundle does not prove what it claims; empty when it does."""

    def holds_stand_still(self) -> AbstractContextManager[object]:
        """While it is open no hold is placed, where that can be had."""


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """What is to be done about a run. ``entries``: messages that the ledger has of it. ``expire`` also ends what was begun."""

    run_id: str
    action: Literal["keep", "expire"]
    why: str
    entries: int
    manifest_sha256: str = ""


@dataclass(frozen=True)
class LedgerExpiry:
    """``bus`` is the gatekeeper's, ``provisioner`` as named. A run goes ``days`` after its end, let by ``person``."""

    bus: Bus
    provisioner: Connection
    evidence: StoredEvidence
    days: int
    clock: Clock
    person: str

    async def plan(self) -> tuple[LedgerItem, ...]:
        """What would be done now, for each run of which the ledger has more than its last transition; nothing is touched.

        Which runs those are is told by the server's index, and how old they are by their bundles: of the ledger itself only
        what would go is read. Raises BusError, ConfigurationError (``holds_unreadable``), StoreError.
        """
        counted = {run_id: count for run_id, count in (await entries_by_run(self.provisioner)).items() if count > 1}
        held, items = await asyncio.to_thread(self.evidence.held), []
        for entry in await asyncio.to_thread(self.evidence.bundles, counted):
            why = why_kept(entry, held, self.days, self.clock.now())
            if not why and (fault := await asyncio.to_thread(self.evidence.fault, entry)):
                why = f"its bundle does not verify ({fault}): look at it first"
            if not why:
                why = self._differs(await self._load(entry.run_id), entry.manifest_sha256)
            if why:
                items.append(LedgerItem(entry.run_id, "keep", why, counted[entry.run_id]))
            else:
                words = f"sealed, and over for more than {self.days} days"
                items.append(LedgerItem(entry.run_id, "expire", words, counted[entry.run_id], entry.manifest_sha256))
        return tuple(items)

    async def carry_out(self, items: Sequence[LedgerItem]) -> tuple[ItemOutcome[LedgerItem], ...]:
        """Do what ``items`` of ``plan`` say, as far as it is still right. One that cannot expire does not stop the others.

        Raises ConfigurationError (``holds_unreadable``).
        """
        done = []
        for item in items:
            if item.action == "keep":
                continue
            try:
                async with self._holds_stand_still():
                    done.append(ItemOutcome(item, await self._expire(item)))
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
        return tuple(done)

    @asynccontextmanager
    async def _holds_stand_still(self) -> AsyncGenerator[None, None]:
        """Waited for in a thread: what another has the book for may need this loop."""
        book = self.evidence.holds_stand_still()
        await asyncio.to_thread(book.__enter__)
        try:
            yield
        finally:
            book.__exit__(None, None, None)

    async def _expire(self, item: LedgerItem) -> int:
        """1. no hold has come  2. the last transition stands in the ledger  3. what is before it goes."""
        if item.run_id in await asyncio.to_thread(self.evidence.held):  # 1
            raise UnavailableError(f"{item.run_id} is on hold now", code="bundle_changed")
        position = await self._load(item.run_id)
        if why := self._differs(position, item.manifest_sha256):
            raise UnavailableError(f"{item.run_id}: {why}", code="bundle_changed")
        if position.run is not None and position.run.expired is None:  # 2
            transition = expire(position.run, self.clock.now(), self.person, item.why)
            try:
                position = await Ledger(self.bus).append(position, transition)
            except ConflictError:
                position = await self._load(item.run_id)  # another round was quicker
        if position.run is None or position.run.expired is None:
            raise UnavailableError(f"{item.run_id} has changed meanwhile", code="bundle_changed")
        # By its place, and not by counting: a message that is no entry may have come after it.
        return await remove_entries(self.provisioner, item.run_id, position.sequences[-1])  # 3

    async def _load(self, run_id: str) -> Position:
        return await Ledger(self.bus).load(run_id)

    def _differs(self, position: Position, manifest_sha256: str) -> str:
        """Why the ledger's own words keep a run; empty when it is sealed with this bundle."""
        sealed = position.run.sealed if position.run is not None else None
        if sealed is None:
            return "the ledger does not say that it is sealed"
        return (
            "" if sealed.manifest_sha256 == manifest_sha256 else "the ledger names another bundle than the one that is stored"
        )
