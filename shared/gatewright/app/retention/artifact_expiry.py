"""One round of letting artifacts expire: those that nothing on the bus refers to, and that no one stored for some days.

Artifacts are shared by all runs that have the same bytes. So they go by references and not by runs: a run that is whole in the
ledger keeps all that it ever named, whether it is open, on hold, not sealed, or sealed and not old enough; so does a message
that waits in a queue, and a dead letter. A run that has left the ledger names nothing any more.

What is stored while a round goes on begins its age anew (``bus.jetstream.object_store``), and is looked at again just before it
goes. If it was stored in that very moment, it is put back.
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
    """An artifact that goes: its digest, as far as its writer was honest, and when it was stored last."""

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
    """``bus`` is the gatekeeper's, which reads and puts back; ``provisioner`` takes away. An artifact goes after ``days``."""

    bus: JetStreamBus
    provisioner: Connection
    days: int
    clock: Clock

    async def names(self) -> frozenset[str]:
        """All artifacts that there are. To be asked before the references are read. Raises BusError."""
        return await stored_artifacts(self.provisioner)

    async def plan(self, names: frozenset[str], references: References) -> ArtifactPlan:
        """What would go now; nothing is touched. Raises BusError."""
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
        """Take ``items`` away, as far as it is still right. One that cannot go does not stop the others."""
        done = []
        for item in items:
            try:
                done.append(ItemOutcome(item, await self._expire(item)))
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
        return tuple(done)

    async def _expire(self, item: ArtifactItem) -> int:
        """1. its bytes are read, unless they are not what the name says  2. no one has stored it meanwhile  3. it goes
        4. if it was stored between 2 and 3, its bytes are stored again.
        """
        data = await self._bytes(item.name)  # 1
        now = await last_artifact_use(self.bus.connection, item.name)
        if now is None:
            return 0  # another round was quicker
        if now != item.use:  # 2
            raise ArtifactError(f"{item.name} was stored again meanwhile", code="bundle_changed")
        removed = await remove_artifact(self.provisioner, item.name, item.use.sequence)  # 3
        if data is not None and await last_artifact_use(self.bus.connection, item.name) is not None:  # 4
            await self.bus.put_artifact(data)
        return removed

    async def _bytes(self, name: str) -> bytes | None:
        """The artifact; None for what no reader would be given: other bytes than the name says, or a part of them."""
        try:
            return await self.bus.get_artifact(stored_uri(name))
        except ArtifactError:
            return None

    def _old(self, use: LastUse) -> bool:
        return self.clock.now() - use.at >= timedelta(days=self.days)
