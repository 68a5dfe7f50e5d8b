"""A sealed bundle taken apart into what its gatekeeper knew, and sealed anew from it under a good key.

A ``BundleStory`` is a bundle's events as plain JSON, without their places in the chain, and the artifacts that they name.
Whoever holds the gatekeeper's key can change them: the story is linked, projected, listed and signed as if it had happened so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from gatewright.contracts import OrchestratorEvent, Transition, codec
from gatewright.contracts.records import Cause
from gatewright.errors import GatewrightError
from gatewright.evidence import layout
from gatewright.evidence.disk import Disk
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.findings import VerificationFinding
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger import chain
from gatewright.run.evolve import fold
from gatewright.run.state import GENESIS
from tests.evidence.recorded_artifacts import Store

Json = dict[str, Any]
#: What the chain makes of an event's place; a story is told without.
LINKS = ("seq", "prev_hash", "hash")


class QuickDisk(Disk):
    """A disk that nothing has to survive."""

    def sync(self, paths: Iterable[Path]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class BundleStory:
    """``events`` in their order; ``blobs`` by digest."""

    events: tuple[Json, ...]
    blobs: Mapping[str, bytes]

    @classmethod
    def of(cls, bundle: Path) -> BundleStory:
        """What the bundle in a folder tells."""
        events = [json.loads(line) for line in (bundle / layout.EVENTS).read_bytes().splitlines()]
        files = [path.read_bytes() for path in bundle.rglob("*") if path.is_file()]
        told = tuple({name: value for name, value in event.items() if name not in LINKS} for event in events)
        return cls(told, {hashlib.sha256(data).hexdigest(): data for data in files})

    @property
    def run_id(self) -> str:
        return str(self.events[0]["run_id"])

    def with_event(self, number: int, event: Json) -> BundleStory:
        """The same with another event in the place of one."""
        return replace(self, events=(*self.events[:number], event, *self.events[number + 1 :]))

    def renamed(self, names: Mapping[str, str]) -> BundleStory:
        """The same with other words in the place of some, wherever they stand in an event."""
        if not names:
            return self
        text = msgspec.json.encode(self.events).decode()
        for old, new in names.items():
            text = text.replace(old, new)
        return replace(self, events=tuple(json.loads(text)))

    def records(self) -> tuple[OrchestratorEvent, ...]:
        """The events in their places. Raises what a reader of the ledger would: MalformedError for what is no event."""
        records: list[OrchestratorEvent] = []
        head = GENESIS
        for seq, event in enumerate(self.events, 1):
            record = codec.decode(json.dumps({**event, "seq": seq, "prev_hash": head, "hash": ""}).encode(), OrchestratorEvent)
            head = chain.digest(record)
            records.append(msgspec.structs.replace(record, hash=head))
        return tuple(records)

    def findings(self, signer: Signer, folder: Path) -> tuple[VerificationFinding, ...] | str:
        """What ``verify`` finds in the bundle that is made of it below ``folder``; in words why none can be made, else.

        A story that the ledger's own fold refuses makes no bundle, and step 5 would refuse it with the same words.
        """
        try:
            records = self.records()
            transition = Transition(
                run_id=self.run_id, number=1, cause=Cause(kind="told", message_id="told"), events=records, commands=()
            )
            run = fold([transition])
            assert run is not None
            store = Store({f"artifact:sha256:{digest}": data for digest, data in self.blobs.items()})
            sealed = asyncio.run(BundleWriter(folder, QuickDisk()).seal(run, [transition], store, signer))
        except GatewrightError as error:
            return f"{error.reason}: {error.message}"
        found = verify(Path(sealed.location), [signer.public]).findings
        shutil.rmtree(sealed.location)
        return found


def moment_of(text: str) -> datetime | None:
    """A time; None for any other text."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None and "T" in text else None
