"""``dead``: list, requeue and drop messages whose processing failed for good."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.clock import SystemClock, timestamp
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.tasks.dead_letters import DeadLetter, DeadLetters

dead = typer.Typer(help="Inspect, requeue or drop messages that could not be handled.", no_args_is_help=True)
LetterArgument = Annotated[
    int, typer.Argument(metavar="N", min=1, help="Number of the dead letter (see: gatewright dead list)")
]
LettersArgument = Annotated[
    list[int], typer.Argument(metavar="N...", min=1, help="Numbers of dead letters (see: gatewright dead list)")
]
#: Maximum characters of a body to print.
_MOST_SHOWN = 20_000
_REASON_WIDTH = 60


def register(app: typer.Typer) -> None:
    dead.command("list")(list_letters)
    dead.command("show")(show)
    dead.command("requeue")(requeue)
    dead.command("drop")(drop)
    app.add_typer(dead, name="dead")


@reported
def list_letters(
    *,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="List only dead letters of this role")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include requeued and dropped dead letters")] = False,
    json_output: JsonOutput = False,
) -> None:
    """List open dead letters, oldest first."""
    asyncio.run(_list_letters(role, everything=everything, json_output=json_output))


async def _list_letters(role: str | None, *, everything: bool, json_output: bool) -> None:
    async with _letters() as letters:
        found = await letters.all()
    now = SystemClock().now()
    wanted = (each for each in found if (everything or each.decision is None) and role in (None, each.role))
    entries = [letter_entry(letter, now) for letter in wanted]
    if json_output:
        emit({"letters": entries})
        return
    for line in letter_table(entries):
        write_line(line)


@reported
def show(letter: LetterArgument, json_output: JsonOutput = False) -> None:
    """Show a dead letter: cause, headers and message."""
    asyncio.run(_show(letter, json_output=json_output))


async def _show(sequence: int, *, json_output: bool) -> None:
    async with _letters() as letters:
        letter = await letters.find(sequence)
        body = await letters.original(letter)
    now = SystemClock().now()
    if json_output:
        emit(letter_details(letter, body, now))
        return
    for line in letter_story(letter, body, now):
        write_line(line)


@reported
def requeue(
    letters: LettersArgument,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the record, such as what changed since")] = "",
    json_output: JsonOutput = False,
) -> None:
    """Requeue the original messages.

    The dead letters stay, marked as requeued.
    """
    asyncio.run(_decide(letters, "requeued", reason, json_output=json_output))


@reported
def drop(
    letters: LettersArgument,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the record")],
    json_output: JsonOutput = False,
) -> None:
    """Mark dead letters as resolved.

    This command deletes nothing: `gatewright dead list --all` still shows them.
    """
    asyncio.run(_decide(letters, "dropped", reason, json_output=json_output))


async def _decide(sequences: list[int], verdict: str, reason: str, *, json_output: bool) -> None:
    done: list[DeadLetter] = []
    async with _letters() as letters:
        for sequence in dict.fromkeys(sequences):
            decide = letters.requeue if verdict == "requeued" else letters.drop
            letter = await decide(sequence, reason)
            done.append(letter)
            if not json_output:
                write_line(f"{letter.sequence} {verdict}: {printable(letter.subject)}")
    if json_output:
        emit({verdict: [letter.sequence for letter in done]})


@contextlib.asynccontextmanager
async def _letters() -> AsyncIterator[DeadLetters]:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client
    from gatewright.tasks.dead_letters import DeadLetters

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        yield DeadLetters(client.bus)


@dataclass(frozen=True, slots=True)
class LetterEntry:
    """One entry of ``dead list --json``. ``size`` is null if the original was too large to keep in the dead letter."""

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


@dataclass(frozen=True, slots=True)
class LetterDetails:
    """The document of ``dead show --json``. ``body``: the original in base64."""

    letter: LetterEntry
    headers: dict[str, str]
    body: str


def letter_entry(letter: DeadLetter, now: datetime) -> LetterEntry:
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


def letter_details(letter: DeadLetter, body: bytes, now: datetime) -> LetterDetails:
    return LetterDetails(letter_entry(letter, now), dict(letter.message.headers), base64.b64encode(body).decode())


def letter_table(entries: Sequence[LetterEntry]) -> list[str]:
    """Format the list of dead letters."""
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


def letter_story(letter: DeadLetter, body: bytes, now: datetime) -> list[str]:
    """Format one dead letter: facts, headers, and the original with unprintable characters escaped."""
    entry = letter_entry(letter, now)
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
    """Format an age."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
