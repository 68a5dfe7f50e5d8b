"""Puts a message that was given up aside for operators: the original bytes, and the reason in headers. It judges nothing."""

from __future__ import annotations

import re

from gatewright.bus.port import MESSAGE_ID_HEADER, SCHEMA_HEADER, Bus, Message
from gatewright.bus.topology import dead_subject
from gatewright.tasks.disposition import words
from gatewright.tasks.protocol import MAX_ANSWER_BYTES, carried_headers

CODE_HEADER = "Gw-Dead-Code"
REASON_HEADER = "Gw-Dead-Reason"
SUBJECT_HEADER = "Gw-Dead-Subject"
SEQUENCE_HEADER = "Gw-Dead-Sequence"
ATTEMPTS_HEADER = "Gw-Dead-Attempts"
ID_HEADER = "Gw-Dead-Message-Id"
#: How often an operator had put the message back into its queue before.
REQUEUED_HEADER = "Gw-Requeued"
#: Set where the body is not the original's: something that looked like a secret was taken out.
ALTERED_HEADER = "Gw-Dead-Altered"
#: Set instead of a body when the original leaves no space for these headers: the artifact with the body.
ARTIFACT_HEADER = "Gw-Dead-Artifact"

UNKNOWN_SCHEMA = "unknown"
_SCHEMA = re.compile(r"[a-z0-9_.]{1,64}\Z")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_MAX_REASON = 500


async def publish_dead_letter(
    bus: Bus, role: str, stream: str, message: Message, *, attempts: int, code: str, reason: str, altered: bool = False
) -> None:
    """Store ``message`` on ``gw.dead.<role>``. The same message twice is stored once. Raises BusError.

    ``altered``: its body is not what was published.
    """
    headers = {
        CODE_HEADER: header_text(code),
        REASON_HEADER: header_text(reason),
        SUBJECT_HEADER: header_text(message.subject),
        SEQUENCE_HEADER: str(message.sequence),
        ATTEMPTS_HEADER: str(attempts),
        ID_HEADER: header_text(message.headers.get(MESSAGE_ID_HEADER, "")),
        **({REQUEUED_HEADER: header_text(message.headers[REQUEUED_HEADER])} if REQUEUED_HEADER in message.headers else {}),
        **({ALTERED_HEADER: "yes"} if altered else {}),
    }
    headers |= carried_headers(message)
    data = message.data
    if len(data) > MAX_ANSWER_BYTES:
        headers[ARTIFACT_HEADER] = await bus.put_artifact(data)
        data = b""
    schema = message.headers.get(SCHEMA_HEADER, "")
    await bus.publish(
        dead_subject(role),
        data,
        schema=schema if _SCHEMA.match(schema) else UNKNOWN_SCHEMA,
        message_id=f"dead:{stream}:{message.sequence}",
        headers=headers,
    )


def header_text(text: str) -> str:
    """Foreign text as a header value: one line of printable ASCII, since a line break would be a header of its own."""
    return "".join(char if " " <= char <= "~" else "?" for char in words(text)[:_MAX_REASON]).strip() or "-"
