"""CloudEvents 1.0 in structured mode: extracts document, schema and key from an envelope. Pure.

The envelope names the type of the document (``type``) and the event (``source`` and ``id``, together the idempotency key). Its
sender field is ignored: the subject identifies the sender.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gatewright.bus.port import SCHEMA_HEADER, TRACE_HEADER, Message
from gatewright.contracts import strict_json
from gatewright.errors import Fault, MalformedError

#: Prefix of the content types of the structured mode. Without a format it is read as JSON, as some senders write it.
FAMILY = "application/cloudevents"
STRUCTURED = frozenset({FAMILY, f"{FAMILY}+json"})
BATCH = f"{FAMILY}-batch"
#: ``type`` of an event -> schema of its data.
TYPES: Mapping[str, str] = {
    f"gatewright.{schema}": schema for schema in ("run_request.v1", "task_contract.v1", "abort_request.v1")
}
INVALID = "cloud_event_invalid"

_ATTRIBUTE = re.compile(r"[a-z0-9]+\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_URI = re.compile(r"[!#-;=?-\[\]_a-z~]+\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_TEXTS = frozenset({"id", "type", "subject"})
_URIS = frozenset({"source", "dataschema"})
_REQUIRED = ("id", "source", "specversion", "type")
_JSON_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/(?:json|[A-Za-z0-9!#$&^_.-]+\+json)\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass(frozen=True, slots=True)
class IncomingDocument:
    """A document from outside and its schema. ``prefix`` is the JSON pointer to it inside the message."""

    schema: str
    data: bytes
    key: str | None = None
    prefix: str = ""
    trace: str = ""


def is_event(message: Message) -> bool:
    """Return whether a message is a CloudEvent: by its content type or, without a named schema, by its ``specversion``.

    Raises:
        MalformedError: an unsupported form (``cloud_event_batch``, ``cloud_event_binary_mode``, ``cloud_event_format``).
    """
    headers = {name.lower(): value for name, value in message.headers.items()}
    content, _, parameters = headers.get("content-type", "").strip().lower().partition(";")
    content = content.strip()
    if content.startswith(BATCH):
        raise MalformedError("one event a message: a batch is not taken", code="cloud_event_batch")
    if any(name.startswith(("ce-", "ce_")) for name in headers):
        raise MalformedError("an event travels whole, in the structured mode", code="cloud_event_binary_mode")
    if content.startswith(FAMILY):
        charset = parameters.replace(" ", "").replace('"', "")
        if content not in STRUCTURED or charset not in {"", "charset=utf-8"}:
            raise MalformedError("events are taken as JSON in UTF-8", code="cloud_event_format")
        return True
    if SCHEMA_HEADER in message.headers or b'"specversion"' not in message.data:
        return False
    value = strict_json.parse(message.data)
    return isinstance(value, dict) and "specversion" in value


def open_event(message: Message) -> IncomingDocument:
    """Extract the document from an event.

    Raises:
        MalformedError: has one fault for each error of the envelope.
    """
    event = strict_json.parse(message.data)
    if not isinstance(event, dict):
        raise _merge_faults((Fault("", INVALID, "must be an object"),))
    faults = tuple(sorted(_envelope_faults(event)))
    if faults:
        raise _merge_faults(faults)
    return IncomingDocument(
        schema=TYPES[event["type"]],
        data=json.dumps(event["data"], ensure_ascii=False).encode(),
        key=json.dumps(["cloudevent", event["source"], event["id"]], ensure_ascii=False, separators=(",", ":")),
        prefix="/data",
        trace=message.headers.get(TRACE_HEADER) or event.get("traceparent") or "",
    )


def within(letter: IncomingDocument, error: MalformedError) -> MalformedError:
    """Prefix the pointers of ``error`` with the document's place inside the message."""
    if not letter.prefix:
        return error
    faults = tuple(Fault((letter.prefix + fault.pointer)[: strict_json.MAX_WORDS], *fault[1:]) for fault in error.faults)
    return MalformedError(error.message, faults=faults, code=error.reason)


def _envelope_faults(event: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of an envelope.

    1. Required attributes.
    2. Optional attributes.
    3. A supported type.
    4. Data is JSON.
    """
    for name in _REQUIRED:  # 1
        if event.get(name) is None:
            yield Fault(f"/{name}", INVALID, "is required")
    if event.get("specversion") not in (None, "1.0"):
        yield Fault("/specversion", "cloud_event_version", "must be 1.0")
    for name, value in event.items():  # 2
        if name not in {"data", "data_base64", "specversion"} and value is not None and (words := _wrong(name, value)):
            yield Fault(strict_json.pointer((name,)), INVALID, words)
    kind = event.get("type")
    if isinstance(kind, str) and kind not in TYPES:  # 3
        yield Fault("/type", "cloud_event_type_unknown", "must be one of " + ", ".join(TYPES))
    yield from _data_faults(event)  # 4


def _data_faults(event: Mapping[str, Any]) -> Iterator[Fault]:
    if event.get("data_base64") is not None:
        yield Fault("/data_base64", "cloud_event_binary_data", "a document is JSON: it stands in data")
    elif event.get("data") is None:
        yield Fault("/data", "cloud_event_without_data", "is required: the document")
    content = event.get("datacontenttype")
    if isinstance(content, str) and not _JSON_TYPE.match(content.partition(";")[0].strip()):
        yield Fault("/datacontenttype", "cloud_event_data_not_json", "must be application/json, or left out")


def _wrong(name: str, value: object) -> str:
    """Return what is wrong with one attribute, as text; empty when it is correct."""
    if not _ATTRIBUTE.match(name):
        return "attributes are called by small letters and digits"
    if name in _TEXTS or name == "datacontenttype":
        return "" if isinstance(value, str) and _TEXT.match(value) else "must be text without control characters, not empty"
    if name in _URIS:
        return "" if isinstance(value, str) and _URI.match(value) else "must be a URI (RFC 3986), not empty"
    if name == "time":
        return "" if _is_time(value) else "must be a timestamp (RFC 3339)"
    if name == "traceparent":
        return "" if isinstance(value, str) else "must be text"
    return "" if isinstance(value, str | bool | int) else "an extension is text, a whole number or a truth value"


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _merge_faults(faults: tuple[Fault, ...]) -> MalformedError:
    """Return one error for all faults, with the code of the first fault that is not about the form alone."""
    first = next((fault for fault in faults if fault.code != INVALID), faults[0])
    return MalformedError(
        f"not a CloudEvent that can be taken: {first.pointer or '/'}: {first.message}", faults=faults, code=first.code
    )
