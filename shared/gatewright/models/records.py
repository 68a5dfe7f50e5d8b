"""The record of every call, for the bundle: one line each. Bounded. The content is in the cassette of the task."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from gatewright.contracts.vocabulary import Document
from gatewright.models.apis.event_stream import EventReader
from gatewright.models.apis.usage import written_text
from gatewright.secrets import Redacted, SecretScanner, redact_output

#: The names of a task's artifacts: the records, and the content.
CALLS = "model_calls"
CASSETTE = "model_cassette"
#: The same of a question of a role: the records.
CALLS_PART = "calls.jsonl"
#: Prefixes of a stream of events.
_STREAM = (b"data:", b"event:", b"id:", b"retry:", b":")


class SentBodies(Document):
    """The bodies of a call sent to one destination, failed attempts included: ``bodies`` of ``bytes`` in total.

    ``model`` is the provider's name for it. ``manifest_sha256`` is of the approved manifest that permitted it;
    ``internal``: to a host of the operator.
    """

    provider: str
    endpoint: str
    model: str
    bodies: int
    bytes: int
    internal: bool = False
    manifest_sha256: str | None = None


class CallRecord(Document):
    """A call. ``model`` was requested, ``model_used`` answered; ``request_sha256`` is of the canonical form of the request.

    ``status`` is the client's. ``sent`` records all transfers, answered or not. ``tried`` describes each failed attempt;
    ``refused`` is the reason code of a call that was not sent or not passed on. ``played``: from a cassette.
    ``usage_doubted``: the provider's count was not accepted. ``ending``: why the reply ended, in the terms of its API.
    ``incomplete``: a reply was cut off or missing, so that tokens and cost are lower bounds.
    """

    number: int
    time: str
    role: str
    endpoint: str
    status: int
    seconds: float
    model: str | None = None
    model_used: str | None = None
    provider: str | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    request_sha256: str | None = None
    reply_sha256: str | None = None
    cassette_sha256: str | None = None
    sent: tuple[SentBodies, ...] = ()
    tried: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    refused: str | None = None
    whole: bool = True
    played: bool = False
    usage_doubted: bool = False
    ending: str | None = None
    incomplete: bool = False


@dataclass
class CallRecords:
    """The calls of one task, in the order in which they ended. Not for use by several threads."""

    most: int = 20_000
    calls: list[CallRecord] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Return whether no further call can be recorded; such a call is refused."""
        return len(self.calls) >= self.most

    def add(self, record: CallRecord) -> None:
        self.calls.append(record)

    @property
    def last_ending(self) -> str | None:
        """Why the reply to the last call ended; None without one."""
        return self.calls[-1].ending if self.calls else None

    def stand_ins(self, asked: str) -> str:
        """Return a description of the models that substituted ``asked``, how often and why; empty if none did."""
        answered = Counter(call.model_used for call in self.calls if call.model_used is not None)
        others = sorted(name for name in answered if name != asked)
        if not others:
            return ""
        tried = dict.fromkeys(words for call in self.calls if call.model_used in others for words in call.tried)
        counts = ", ".join(f"{name} answered {answered[name]} of {answered.total()} calls" for name in others)
        return f"{asked} was to be asked, and {counts}; tried first: {'; '.join([*tried][:3]) or 'nothing'}"

    def as_jsonl(self) -> bytes:
        """Return one line of JSON per call."""
        return b"".join(msgspec.json.encode(call) + b"\n" for call in self.calls)


def without_secrets(place: str, body: bytes, scanner: SecretScanner) -> Redacted:
    """Return ``body`` with each secret replaced; a stream with one in its text becomes that text: its events may split it."""
    if body.startswith(_STREAM):
        reader = EventReader(len(body) + 1)
        words = written_text([*reader.feed(body), *reader.finish()]).encode("utf-8", "replace")
        if (redacted := redact_output(place, words, scanner)).redactions:
            return redacted
    return redact_output(place, body, scanner)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
