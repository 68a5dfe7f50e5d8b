"""The headers of each kind of message, as JSON Schemas."""

from __future__ import annotations

from typing import Any

from gatewright.bus.jetstream.object_store import SIZE_HEADER
from gatewright.bus.port import (
    BEAT_HEADER,
    KEY_HEADER,
    MESSAGE_ID_HEADER,
    PUBLISHER_HEADER,
    SCHEMA_HEADER,
    TASK_TOKEN_HEADER,
    TRACE_HEADER,
)
from gatewright.tasks import dead_letter

Json = dict[str, Any]

_TRACE: Json = {
    "type": "string",
    "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}",
    "description": "W3C Trace Context.",
}
_KEY: Json = {
    "type": "string",
    "minLength": 8,
    "maxLength": 128,
    "description": "The same key makes one run, however often it is sent.",
}
_ID: Json = {"type": "string", "description": "The stream stores repetitions within its window once."}
_TOKEN: Json = {
    "type": "string",
    "pattern": "^[0-9a-f]{64}$",
    "description": "Comes with a task. Its answer returns it.",
}
_NUMBER: Json = {"type": "string", "pattern": "^[0-9]+$"}
_TEXT: Json = {"type": "string"}

#: Kind -> its headers, and the required ones besides the schema's name.
_HEADERS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "submission": ({KEY_HEADER: _KEY, MESSAGE_ID_HEADER: _ID, TRACE_HEADER: _TRACE}, ()),
    "question": ({}, ()),
    "reply": ({}, (SCHEMA_HEADER,)),
    "task": (
        {
            MESSAGE_ID_HEADER: _ID,
            TRACE_HEADER: _TRACE,
            PUBLISHER_HEADER: _TEXT | {"description": "Publisher of the run."},
            BEAT_HEADER: _NUMBER | {"description": "Seconds between claims that the task is in progress."},
            TASK_TOKEN_HEADER: _TOKEN,
        },
        (SCHEMA_HEADER, MESSAGE_ID_HEADER, TASK_TOKEN_HEADER),
    ),
    "answer": (
        {MESSAGE_ID_HEADER: _ID, TRACE_HEADER: _TRACE, TASK_TOKEN_HEADER: _TOKEN},
        (SCHEMA_HEADER, MESSAGE_ID_HEADER, TASK_TOKEN_HEADER),
    ),
    "ledger": (
        {
            MESSAGE_ID_HEADER: _ID,
            "Nats-Expected-Last-Subject-Sequence": _NUMBER
            | {"description": "Optimistic concurrency: last sequence that the writer read."},
        },
        (SCHEMA_HEADER, MESSAGE_ID_HEADER),
    ),
    "notice": ({}, ()),
    "claim": ({TRACE_HEADER: _TRACE, TASK_TOKEN_HEADER: _TOKEN}, (TASK_TOKEN_HEADER,)),
    "piece": ({SIZE_HEADER: _NUMBER | {"description": "With piece 0: total size in bytes."}}, ()),
    "dead": (
        {
            dead_letter.CODE_HEADER: _TEXT | {"description": "The reason code."},
            dead_letter.REASON_HEADER: _TEXT,
            dead_letter.SUBJECT_HEADER: _TEXT,
            dead_letter.SEQUENCE_HEADER: _NUMBER,
            dead_letter.ATTEMPTS_HEADER: _NUMBER,
            dead_letter.ID_HEADER: _TEXT,
            dead_letter.ALTERED_HEADER: _TEXT,
            dead_letter.ARTIFACT_HEADER: _TEXT,
        },
        (dead_letter.CODE_HEADER,),
    ),
    "foreign": ({}, ()),
}


def header_schema(kind: str, schema: str) -> Json:
    """The headers of a message of this kind; ``schema`` is the name of its document's, empty where it has none of ours."""
    known, needed = _HEADERS[kind]
    named: Json = {SCHEMA_HEADER: {"type": "string", "const": schema}} if schema else {}
    required = [name for name in needed if schema or name != SCHEMA_HEADER]
    return {"type": "object", "properties": named | known, **({"required": required} if required else {})}
