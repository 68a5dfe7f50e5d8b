"""Records of model calls as a role may bring them: an honest one, and those that no approved manifest covers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from gatewright.contracts.transfers import TransferManifest
from gatewright.models.records import CallRecord, SentBodies
from gatewright.rules.transfers import manifest_digest

#: Makes the records of a task of the manifest that it has leave by; None: it brings none.
Recorded = Callable[[TransferManifest], bytes | None]
#: What a worker reports that it has sent, and what it has.
TOLD = 4999


def calls_by(manifest: TransferManifest, *, played: bool = False, nowhere: bool = False, **changes: Any) -> bytes:
    """One call of ``TOLD`` bytes to the first destination; ``changes`` are fields of what was sent."""
    place = manifest.destinations[0]
    sent: dict[str, Any] = {
        "provider": place.provider,
        "endpoint": place.endpoint,
        "model": place.model,
        "bodies": 1,
        "bytes": TOLD,
        "manifest_sha256": manifest_digest(manifest),
    }
    call = CallRecord(
        number=1,
        time="2026-01-02T00:00:00.000Z",
        role=manifest.role,
        endpoint="/v1/responses",
        status=200,
        seconds=0.1,
        model_used=place.model,
        sent=() if nowhere else (SentBodies(**(sent | changes)),),
        played=played,
    )
    return msgspec.json.encode(call) + b"\n"


def without_records(_manifest: TransferManifest) -> None:
    return None


#: What no manifest covers, by what is wrong with it.
UNCOVERED: dict[str, Recorded] = {
    "another endpoint": partial(calls_by, endpoint="https://evil.example:443"),
    "another provider": partial(calls_by, provider="evil"),
    "another model": partial(calls_by, model="evil-1"),
    "another manifest": partial(calls_by, manifest_sha256="e" * 64),
    "no manifest": partial(calls_by, manifest_sha256=None, internal=True),
    "more bytes than were reported": partial(calls_by, bytes=TOLD + 1),
    "room made by less than nothing": lambda manifest: calls_by(manifest) + calls_by(manifest, bytes=-TOLD),
    "an answer from nowhere": partial(calls_by, nowhere=True),
    "a played call that was sent": partial(calls_by, played=True),
    "no records, of a worker that reported bytes": without_records,
    "records that cannot be read": lambda manifest: calls_by(manifest) + b"{}\n",
    "records that are none": lambda _: b"\xff\n",
}
