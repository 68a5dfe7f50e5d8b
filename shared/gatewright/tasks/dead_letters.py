"""The dead letters as operators see them: what was given up, why, and what was decided about it since.

Nothing is ever taken out of the stream. A decision (put back, dropped) is a message of its own that names the letter, on a
subject that only operators may write. It changes no run: a run whose task was refused has ended with that refusal.

Roles write their own letters, so a letter proves nothing. What a role could write there must not become a message that the role
may not write itself: a letter goes back only into a queue that its role reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gatewright.bus.port import SCHEMA_HEADER, Bus, Message
from gatewright.bus.subjects import matches
from gatewright.bus.topology import DEAD_LETTER_DECIDER, TASK_ROLES, dead_subject
from gatewright.errors import DeniedError, MalformedError
from gatewright.tasks import dead_letter as d
from gatewright.tasks.protocol import carried_headers

DECISION_HEADER = "Gw-Dead-Decision"
LETTER_HEADER = "Gw-Dead-Letter"

Verdict = Literal["requeued", "dropped"]


@dataclass(frozen=True, slots=True)
class DeadLetterDecision:
    """``at``: seconds since 1970."""

    verdict: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that was given up. ``sequence`` names it; ``requeued``: how often it had been put back before.

    All of it was written by a role, out of a message from anywhere: text for people, to be made printable.
    """

    sequence: int
    role: str
    subject: str
    code: str
    reason: str
    attempts: int
    requeued: int
    at: float
    altered: bool
    message: Message
    decision: DeadLetterDecision | None = None

    @property
    def size(self) -> int | None:
        """Bytes of the original; None when it was too large to be kept beside its headers."""
        return None if d.ARTIFACT_HEADER in self.message.headers else len(self.message.data)


class DeadLetters:
    """The stream of dead letters on a bus that is connected as an operator. Every method raises BusError."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def all(self) -> tuple[DeadLetter, ...]:
        """Every letter, oldest first, with what was decided about it last."""
        letters: dict[int, Message] = {}
        decisions: dict[int, DeadLetterDecision] = {}
        async for message in self._bus.replay(dead_subject("*")):
            if message.subject == dead_subject(DEAD_LETTER_DECIDER):
                decisions[_number(message.headers, LETTER_HEADER)] = _decision(message)
            else:
                letters[message.sequence] = message
        return tuple(_letter(message, decisions.get(sequence)) for sequence, message in letters.items())

    async def find(self, sequence: int) -> DeadLetter:
        """One letter. Raises MalformedError (``dead_letter_unknown``)."""
        for letter in await self.all():
            if letter.sequence == sequence:
                return letter
        raise MalformedError(f"there is no dead letter {sequence}", code="dead_letter_unknown")

    async def original(self, letter: DeadLetter) -> bytes:
        """The bytes of the message that was given up. Raises ArtifactError when they were stored apart and are gone."""
        uri = letter.message.headers.get(d.ARTIFACT_HEADER)
        return await self._bus.get_artifact(uri) if uri else letter.message.data

    async def requeue(self, sequence: int, reason: str = "") -> DeadLetter:
        """Put the message back under a new id, then record it; returns the letter as it was.

        A crash between the two is made good by the next call: the id is the same. Raises DeniedError: ``dead_letter_settled``,
        ``dead_letter_altered``, ``dead_letter_misplaced``; MalformedError: ``dead_letter_unknown``.
        """
        letter = self._require_open(await self.find(sequence))
        if letter.altered:
            raise DeniedError(f"{sequence}: what was kept is not the original, see its reason", code="dead_letter_altered")
        if not belongs(letter.role, letter.subject):
            words = f"{sequence}: {letter.subject} is no queue of the {letter.role}, which wrote this letter"
            raise DeniedError(words, code="dead_letter_misplaced")
        times = letter.requeued + 1
        await self._bus.publish(
            letter.subject,
            await self.original(letter),
            schema=letter.message.headers.get(SCHEMA_HEADER, d.UNKNOWN_SCHEMA),
            message_id=f"requeued:{sequence}:{times}",
            headers={d.REQUEUED_HEADER: str(times), **carried_headers(letter.message)},
        )
        await self._decide(letter, "requeued", reason)
        return letter

    async def drop(self, sequence: int, reason: str) -> DeadLetter:
        """Record that nothing is to be done about a letter; it stays where it is. Raises as ``requeue`` does."""
        if not reason.strip():
            raise MalformedError("state why it is dropped", code="invalid_input")
        letter = self._require_open(await self.find(sequence))
        await self._decide(letter, "dropped", reason)
        return letter

    def _require_open(self, letter: DeadLetter) -> DeadLetter:
        if letter.decision is not None:
            raise DeniedError(f"{letter.sequence} was {letter.decision.verdict} before", code="dead_letter_settled")
        return letter

    async def _decide(self, letter: DeadLetter, verdict: Verdict, reason: str) -> None:
        await self._bus.publish(
            dead_subject(DEAD_LETTER_DECIDER),
            b"",
            schema=d.UNKNOWN_SCHEMA,
            message_id=f"decided:{letter.sequence}",
            headers={DECISION_HEADER: verdict, LETTER_HEADER: str(letter.sequence), d.REASON_HEADER: d.header_text(reason)},
        )


def belongs(role: str, subject: str) -> bool:
    """Return whether the role takes messages from ``subject``: a dead letter may return only to its role's own subjects."""
    if role == "gatekeeper":  # it gives the tasks, and gives up those that no role could refuse
        return any(matches(pattern, subject) for pattern in ("gw.intake.>", "gw.result.*", "gw.task.*.*.*"))
    return role in TASK_ROLES and matches(f"gw.task.{role}.*.*", subject)


def _letter(message: Message, decision: DeadLetterDecision | None) -> DeadLetter:
    headers = message.headers
    return DeadLetter(
        sequence=message.sequence,
        role=message.subject.removeprefix(dead_subject("")),
        subject=headers.get(d.SUBJECT_HEADER, ""),
        code=headers.get(d.CODE_HEADER, ""),
        reason=headers.get(d.REASON_HEADER, ""),
        attempts=_number(headers, d.ATTEMPTS_HEADER),
        requeued=_number(headers, d.REQUEUED_HEADER),
        at=message.stored_at,
        altered=d.ALTERED_HEADER in headers,
        message=message,
        decision=decision,
    )


def _decision(message: Message) -> DeadLetterDecision:
    headers = message.headers
    return DeadLetterDecision(headers.get(DECISION_HEADER, ""), headers.get(d.REASON_HEADER, ""), message.stored_at)


def _number(headers: Mapping[str, str], name: str) -> int:
    """Parse an untrusted header: anything other than a small number gives none."""
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
