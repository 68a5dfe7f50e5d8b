"""One round of expiring artifacts to which nothing on the bus refers, and which were not stored for some days.

All runs with the same bytes share an artifact. So artifacts expire by references, not by runs. A run that is complete in
the ledger keeps all artifacts that it ever named, whether it is open, on hold, unsealed, or sealed and recent; so does a
queued message, and a dead letter. A run that has expired from the ledger names nothing any more.

Storing an artifact during a round restarts its age (``bus.jetstream.object_store``), and the age is checked again just
before removal. An artifact stored in that very moment is stored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.references import References
from gatewright.artifacts import stored_uri
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.removal import LastUse, last_artifact_use, remove_artifact, stored_artifacts
from gatewright.clock import Clock
from gatewright.errors import ArtifactError, GatewrightError


@dataclass(frozen=True, slots=True)
class ArtifactItem:
    """An artifact to remove: its digest, if its writer was honest, and its last use."""

    name: str
    use: LastUse


@dataclass(frozen=True, slots=True)
class ArtifactPlan:
    """``items`` go; ``needed`` are referred to, ``young`` were stored too lately."""

    items: tuple[ArtifactItem, ...] = ()
    needed: int = 0
    young: int = 0


@dataclass(frozen=True)
class ArtifactExpiry:
    """``bus`` is the gatekeeper's, which reads and stores again; ``provisioner`` removes. An artifact expires after
    ``days``."""

    bus: JetStreamBus
    provisioner: Connection
    days: int
    clock: Clock

    async def names(self) -> frozenset[str]:
        """Return all artifacts. Call it before reading the references. Raises BusError."""
        return await stored_artifacts(self.provisioner)

    async def plan(self, names: frozenset[str], references: References) -> ArtifactPlan:
        """Return what would be removed now, without changes. Raises BusError."""
        items, young = [], 0
        unneeded = sorted(names - references.digests)
        for name in unneeded:
            use = await last_artifact_use(self.bus.connection, name)
            if use is not None and self._old(use):
                items.append(ArtifactItem(name, use))
            else:
                young += 1
        return ArtifactPlan(tuple(items), len(names) - len(unneeded), young)

    async def carry_out(self, items: Sequence[ArtifactItem]) -> tuple[ItemOutcome[ArtifactItem], ...]:
        """Remove ``items`` that still qualify. A failure of one does not stop the others."""
        done = []
        for item in items:
            try:
                done.append(ItemOutcome(item, await self._expire(item)))
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
        return tuple(done)

    async def _expire(self, item: ArtifactItem) -> int:
        """Remove an artifact:

        1. read its bytes, unless they differ from its name  2. check that it was not stored meanwhile  3. remove it 4.
        store it again if it was stored between 2 and 3.
        """
        data = await self._read_whole_artifact(item.name)  # 1
        now = await last_artifact_use(self.bus.connection, item.name)
        if now is None:
            return 0  # another round was quicker
        if now != item.use:  # 2
            raise ArtifactError(f"{item.name} was stored again meanwhile", code="bundle_changed")
        removed = await remove_artifact(self.provisioner, item.name, item.use.sequence)  # 3
        if data is not None and await last_artifact_use(self.bus.connection, item.name) is not None:  # 4
            await self.bus.put_artifact(data)
        return removed

    async def _read_whole_artifact(self, name: str) -> bytes | None:
        """Return the artifact; None if readers would not get it: other bytes than its name, or incomplete."""
        try:
            return await self.bus.get_artifact(stored_uri(name))
        except ArtifactError:
            return None

    def _old(self, use: LastUse) -> bool:
        return self.clock.now() - use.at >= timedelta(days=self.days)
