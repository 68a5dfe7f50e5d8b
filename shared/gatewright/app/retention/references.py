"""References on the bus: artifacts by digest, and the runs that are unsealed or still in the ledger.

Any text that looks like a digest is a reference: keeping an artifact too long is better than losing it. The expired part of
a run refers to nothing. Reads only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.removal import dead_letters
from gatewright.bus.port import Bus
from gatewright.bus.topology import OPERATOR_PUBLISHER, intake_stream, queue_subject, run_subject
from gatewright.contracts import QueueTransition, codec
from gatewright.errors import MalformedError
from gatewright.foreign_documents import JsonReader
from gatewright.queue.events import EntryEnqueued, EntryLeft, PositionLanded
from gatewright.run.events import BundleSealed, RunExpired

_DIGEST = re.compile(rb"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")  # noqa: TID251 - linear: of a fixed length
#: Queues whose messages may name what no ledger entry names yet. Publishers' uploads are stored elsewhere; operators' not.
_QUEUES = ("gw.result.>", "gw.task.>", intake_stream(OPERATOR_PUBLISHER).subjects[0])


class _EventKind(msgspec.Struct):
    event_type: str = ""


class _Entry(msgspec.Struct):
    events: tuple[_EventKind, ...] = ()


_ENTRY = JsonReader(_Entry)


@dataclass
class References:
    """``digests``: all referenced artifacts. ``whole``: runs with more in the ledger than the last event.

    ``sealed``: those of them whose bundle the ledger has recorded.
    """

    digests: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    sealed: set[str] = field(default_factory=set)

    def refer(self, *texts: bytes) -> None:
        """Note every digest in ``texts``."""
        for text in texts:
            self.digests.update(found.decode().lower() for found in _DIGEST.findall(text))

    def saw(self, run_id: str, data: bytes) -> None:
        """Record an entry of the ledger, in order; a message that is no entry is treated alike."""
        try:
            kinds = {event.event_type for event in _ENTRY.decode(data).events}
        except ValueError:
            kinds = set()
        if kinds == {RunExpired.event_type} and run_id not in self.whole:
            return
        self.refer(data)
        self.whole.add(run_id)
        if BundleSealed.event_type in kinds:
            self.sealed.add(run_id)


async def read_references(bus: Bus, provisioner: Connection) -> References:
    """Return all current references. ``bus`` is the gatekeeper's. Raises BusError.

    Queues are read first: a message that leaves one meanwhile is found in the ledger.
    """
    found = References()
    async for letter in dead_letters(provisioner):
        found.refer(letter.data, letter.hdrs)
    for subject in _QUEUES:
        async for message in bus.unsettled(subject):
            found.refer(message.data, _header_text(message.headers))
    merge_queues: dict[str, MergeQueueReferences] = {}
    async for message in bus.replay(queue_subject("*")):
        merge_queues.setdefault(message.subject, MergeQueueReferences()).saw(message.data)
    for queue in merge_queues.values():
        found.digests |= queue.digests
    async for message in bus.replay(run_subject("*")):
        found.saw(message.subject.removeprefix(run_subject("")), message.data)
    return found


@dataclass
class MergeQueueReferences:
    """``digests``: the artifacts of one merge queue, since it was last empty. Its landed runs refer to their receipts."""

    digests: set[str] = field(default_factory=set)
    _waiting: set[str] = field(default_factory=set)

    def saw(self, data: bytes) -> None:
        """Record a step of the queue, in order. An unreadable step leaves the queue in use."""
        self.digests.update(found.decode().lower() for found in _DIGEST.findall(data))
        try:
            records = codec.decode(data, QueueTransition).events
        except MalformedError:
            self._waiting.add("")
            return
        for record in records:
            match record.event_type, record.payload:
                case EntryEnqueued.event_type, {"entry": {"run_id": run_id}}:
                    self._waiting.add(run_id)
                case EntryLeft.event_type, {"run_id": run_id}:
                    self._waiting.discard(run_id)
                case PositionLanded.event_type, {"runs": runs}:
                    self._waiting.difference_update(runs)
        if not self._waiting:
            self.digests.clear()


def _header_text(headers: Mapping[str, str]) -> bytes:
    return "\n".join(headers.values()).encode("utf-8", "replace")
