"""One round of expiring dead letters, with the decisions about them.

A letter expires when it is old enough and every run that it mentions is sealed, or gone from the ledger, and on no hold.
Its writer may have mentioned any run: that can keep a letter, but never expire one that its own run keeps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.references import References
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.removal import dead_letters, remove_letter
from gatewright.bus.jetstream.storage import StoredMessage
from gatewright.bus.port import Bus
from gatewright.bus.topology import DEAD_LETTER_DECIDER, dead_subject
from gatewright.clock import Clock
from gatewright.errors import ArtifactError, GatewrightError
from gatewright.tasks.dead_letter import ARTIFACT_HEADER
from gatewright.tasks.dead_letters import LETTER_HEADER

_RUN = re.compile(rb"run-[0-9a-f]{20}")  # noqa: TID251 - linear: of a fixed length


@dataclass(frozen=True, slots=True)
class LetterItem:
    """A dead letter to remove, and the sequences of the decisions about it, which are removed first."""

    sequence: int
    decisions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LetterPlan:
    """``items`` go; ``needed`` speak of runs that are not sealed, or on hold, ``young`` are not old enough."""

    items: tuple[LetterItem, ...] = ()
    needed: int = 0
    young: int = 0


@dataclass(frozen=True)
class DeadLetterExpiry:
    """``bus`` is the gatekeeper's, which reads bodies stored separately; ``provisioner`` reads and removes."""

    bus: Bus
    provisioner: Connection
    days: int
    clock: Clock

    async def plan(self, references: References, held: Collection[str]) -> LetterPlan:
        """Return what would be removed now, without changes. Raises BusError."""
        kept = {run_id.encode() for run_id in (*(references.whole - references.sealed), *held)}
        going: dict[int, list[int]] = {}
        needed = young = 0
        async for message in dead_letters(self.provisioner):
            if message.subject == dead_subject(DEAD_LETTER_DECIDER):
                about = message.header(LETTER_HEADER)
                if about.isascii() and about.isdigit() and int(about) in going:
                    going[int(about)].append(message.seq)
            elif not self._old(message):
                young += 1
            elif _mentioned_artifacts(await self._message_text(message)) & kept:
                needed += 1
            else:
                going[message.seq] = []
        return LetterPlan(tuple(LetterItem(at, tuple(about)) for at, about in going.items()), needed, young)

    async def carry_out(self, items: Sequence[LetterItem]) -> tuple[ItemOutcome[LetterItem], ...]:
        """Take ``items`` away. One that cannot go does not stop the others."""
        done = []
        for item in items:
            try:
                # Decisions first: what counts open letters takes those that were decided about from all that there are.
                for sequence in (*item.decisions, item.sequence):
                    await remove_letter(self.provisioner, sequence)
            except GatewrightError as error:
                done.append(ItemOutcome(item, code=error.reason, message=error.message))
            else:
                done.append(ItemOutcome(item))
        return tuple(done)

    async def _message_text(self, message: StoredMessage) -> bytes:
        apart = message.header(ARTIFACT_HEADER)
        try:
            body = await self.bus.get_artifact(apart) if apart else message.data
        except ArtifactError:
            body = b""
        return message.hdrs + b"\n" + body

    def _old(self, message: StoredMessage) -> bool:
        return message.time is not None and self.clock.now() - message.time >= timedelta(days=self.days)


def _mentioned_artifacts(text: bytes) -> set[bytes]:
    return set(_RUN.findall(text))
