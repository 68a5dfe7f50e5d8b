"""One round of expiring sealed runs from the ledger: which expire, why the others stay, and the execution.

A run expires when it is sealed, old enough by its signed manifest, on no hold, and its bundle is stored where bundles are
kept, verifies, and is the one in the ledger. This takes two steps: the gatekeeper's identity appends the run's last
transition, which records what must stay known; then the provisioner's removes everything before it. If interrupted in
between, the run is complete, and the next round continues. Of two concurrent rounds, the ledger accepts one transition.

The evidence is read in a thread: a store is slow, and a blocked event loop would lose both connections to the bus.
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
    """The storage of sealed bundles: a home folder or a store."""

    def bundles(self, run_ids: Collection[str]) -> Sequence[InventoryItem]:
        """Return the entries of these runs."""

    def held(self) -> Mapping[str, LegalHold]:
        """Run id -> what holds its bundle. Raises ConfigurationError (``holds_unreadable``)."""

    def fault(self, entry: InventoryItem) -> str:
        """Why a sealed bundle does not prove what it claims; empty when it does."""

    def holds_stand_still(self) -> AbstractContextManager[object]:
        """While it is open no hold is placed, where that can be had."""


@dataclass(frozen=True, slots=True)
class LedgerItem:
    """The planned action for a run. ``entries``: its messages in the ledger. ``expire`` also completes an interrupted
    expiry."""

    run_id: str
    action: Literal["keep", "expire"]
    why: str
    entries: int
    manifest_sha256: str = ""


@dataclass(frozen=True)
class LedgerExpiry:
    """``bus`` is the gatekeeper's, ``provisioner`` as named. A run expires ``days`` after its end, on the order of
    ``person``."""

    bus: Bus
    provisioner: Connection
    evidence: StoredEvidence
    days: int
    clock: Clock
    person: str

    async def plan(self) -> tuple[LedgerItem, ...]:
        """Return what would be done now, for each run with more in the ledger than its last transition; change nothing.

        The server's index lists these runs, and their bundles have their age: of the ledger itself, only the entries to
        remove are read. Raises BusError, ConfigurationError (``holds_unreadable``), StoreError.
        """
        counted = {run_id: count for run_id, count in (await entries_by_run(self.provisioner)).items() if count > 1}
        held, items = await asyncio.to_thread(self.evidence.held), []
        for entry in await asyncio.to_thread(self.evidence.bundles, counted):
            why = why_kept(entry, held, self.days, self.clock.now())
            if not why and (fault := await asyncio.to_thread(self.evidence.fault, entry)):
                why = f"its bundle does not verify ({fault}): look at it first"
            if not why:
                why = self._differs(await self._load_position(entry.run_id), entry.manifest_sha256)
            if why:
                items.append(LedgerItem(entry.run_id, "keep", why, counted[entry.run_id]))
            else:
                words = f"sealed, and over for more than {self.days} days"
                items.append(LedgerItem(entry.run_id, "expire", words, counted[entry.run_id], entry.manifest_sha256))
        return tuple(items)

    async def carry_out(self, items: Sequence[LedgerItem]) -> tuple[ItemOutcome[LedgerItem], ...]:
        """Execute ``items`` of ``plan`` that still qualify. A failure of one does not stop the others.

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
        """Check holds, write the last transition to the ledger, remove everything before it."""
        if item.run_id in await asyncio.to_thread(self.evidence.held):  # 1
            raise UnavailableError(f"{item.run_id} is on hold now", code="bundle_changed")
        position = await self._load_position(item.run_id)
        if why := self._differs(position, item.manifest_sha256):
            raise UnavailableError(f"{item.run_id}: {why}", code="bundle_changed")
        if position.run is not None and position.run.expired is None:  # 2
            transition = expire(position.run, self.clock.now(), self.person, item.why)
            try:
                position = await Ledger(self.bus).append(position, transition)
            except ConflictError:
                position = await self._load_position(item.run_id)  # another round was quicker
        if position.run is None or position.run.expired is None:
            raise UnavailableError(f"{item.run_id} has changed meanwhile", code="bundle_changed")
        # By position, not by number: a message that is no entry may follow it.
        return await remove_entries(self.provisioner, item.run_id, position.sequences[-1])  # 3

    async def _load_position(self, run_id: str) -> Position:
        return await Ledger(self.bus).load(run_id)

    def _differs(self, position: Position, manifest_sha256: str) -> str:
        """Return why the ledger keeps a run; empty if it is sealed with this bundle."""
        sealed = position.run.sealed if position.run is not None else None
        if sealed is None:
            return "the ledger has no record that it is sealed"
        return (
            "" if sealed.manifest_sha256 == manifest_sha256 else "the ledger names another bundle than the one that is stored"
        )
