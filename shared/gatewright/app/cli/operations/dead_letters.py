"""Dead letters and what was decided about them, for programs and for people. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from gatewright.clock import timestamp
from gatewright.tasks.dead_letters import DeadLetter
from gatewright.view.safe_text import printable

#: How much of a body people are shown.
_MOST_SHOWN = 20_000
_REASON_WIDTH = 60


class LetterEntry(msgspec.Struct, frozen=True):
    """One entry of ``dead list --json``. ``size`` is null where the original was too large to be kept in the letter."""

    letter: int
    role: str
    subject: str
    code: str
    reason: str
    attempts: int
    requeued: int
    at: str
    age_sec: float
    size: int | None
    altered: bool
    decision: str | None
    decision_reason: str | None


class LetterDetails(msgspec.Struct, frozen=True):
    """The document of ``dead show --json``: ``body`` is the original in base64."""

    letter: LetterEntry
    headers: dict[str, str]
    body: str


def entry_of(letter: DeadLetter, now: datetime) -> LetterEntry:
    decision = letter.decision
    return LetterEntry(
        letter=letter.sequence,
        role=letter.role,
        subject=letter.subject,
        code=letter.code,
        reason=letter.reason,
        attempts=letter.attempts,
        requeued=letter.requeued,
        at=timestamp(datetime.fromtimestamp(letter.at, UTC)),
        age_sec=round(max(0.0, now.timestamp() - letter.at), 3),
        size=letter.size,
        altered=letter.altered,
        decision=decision.verdict if decision else None,
        decision_reason=decision.reason if decision else None,
    )


def details_of(letter: DeadLetter, body: bytes, now: datetime) -> LetterDetails:
    return LetterDetails(entry_of(letter, now), dict(letter.message.headers), base64.b64encode(body).decode())


def table(entries: Sequence[LetterEntry]) -> list[str]:
    """The list for people."""
    if not entries:
        return ["no dead letters"]
    subjects = [printable(entry.subject) for entry in entries]
    width = max(map(len, (*subjects, "SUBJECT")))
    lines = [f"{'LETTER':>6} {'AGE':>8} {'SUBJECT':<{width}} {'TRIES':>5} {'CODE':<22} REASON"]
    for entry, subject in zip(entries, subjects, strict=True):
        reason = printable(entry.reason)
        shown = reason if len(reason) <= _REASON_WIDTH else reason[: _REASON_WIDTH - 1] + "…"
        mark = f" [{printable(entry.decision)}]" if entry.decision else ""
        code = printable(entry.code)
        lines.append(
            f"{entry.letter:>6} {age(entry.age_sec):>8} {subject:<{width}} {entry.attempts:>5} {code:<22} {shown}{mark}"
        )
    return lines


def story(letter: DeadLetter, body: bytes, now: datetime) -> list[str]:
    """One letter for people: facts, headers, and the original with everything escaped that would not simply print."""
    entry = entry_of(letter, now)
    lines = [
        f"letter     {entry.letter}, {age(entry.age_sec)} old, of the {printable(entry.role)}",
        f"subject    {printable(entry.subject)}",
        f"reason     {printable(entry.code)}: {printable(entry.reason)}",
        f"attempts   {entry.attempts}, requeued {entry.requeued} times before",
    ]
    if entry.decision:
        lines.append(f"decided    {printable(entry.decision)}: {printable(entry.decision_reason or '-')}")
    if entry.altered:
        lines.append("body       not the original: something that looked like a secret was taken out")
    lines += [
        "",
        "headers",
        *(f"  {printable(name)}: {printable(value)}" for name, value in sorted(letter.message.headers.items())),
    ]
    text = printable(body[:_MOST_SHOWN].decode("utf-8", "backslashreplace"))
    more = len(body) - _MOST_SHOWN
    return [*lines, "", f"original, {len(body)} bytes", text, *([f"... and {more} bytes; --json has all"] if more > 0 else [])]


def age(seconds: float) -> str:
    """A time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
