"""``dead``: list, requeue and drop messages whose processing failed for good; ``queue``: list, pause and resume queues."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import Class, JsonOutput
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.clock import SystemClock, timestamp
from gatewright.errors import BusError, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.bus.jetstream.connection import Connection
    from gatewright.bus.jetstream.queue_control import QueueState
    from gatewright.bus.topology import Consumer
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


queue = typer.Typer(help="Show, pause and resume work queues.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ROLE", help="pm, techlead, worker, reviewer, testrunner or intake")]
Length = Annotated[str, typer.Option("--for", metavar="TIME", help="Duration, such as 90s, 10m, 2h or 1d")]
Pool = Annotated[str, typer.Option(metavar="NAME", help="Pool of the role")]
OneClass = Annotated[Class | None, typer.Option("--class", help="Priority of the tasks (default: all)")]
_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h|d)")  # noqa: TID251 - the operator's own text
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _register_queues(app: typer.Typer) -> None:
    queue.command("list")(list_queues)
    queue.command("pause")(pause)
    queue.command("resume")(resume)
    app.add_typer(queue, name="queue")


@reported
def list_queues(json_output: JsonOutput = False) -> None:
    """List queues: waiting and running tasks, oldest wait, and pauses."""
    asyncio.run(_list(json_output=json_output))


async def _list(*, json_output: bool) -> None:
    from gatewright.bus.jetstream.queue_control import queues, state_of

    async with _connection() as connection:
        states = await asyncio.gather(*(state_of(connection, each) for each in await queues(connection)))
    entries = [queue_entry(state) for state in states if state is not None]
    if json_output:
        emit({"queues": entries})
        return
    for line in queue_table(entries):
        write_line(line)


@reported
def pause(
    name: Name,
    *,
    duration: Length = "1h",
    pool: Pool = "default",
    task_class: OneClass = None,
    json_output: JsonOutput = False,
) -> None:
    """Pause a queue; running tasks finish and new tasks wait."""
    asyncio.run(_pause(_chosen_queues(name, pool, task_class), parse_duration(duration), json_output=json_output))


async def _pause(chosen: tuple[Consumer, ...] | None, seconds: float, *, json_output: bool) -> None:
    from gatewright.bus.jetstream import queue_control

    async with _connection() as connection:
        found = chosen if chosen is not None else await queue_control.intake_queues(connection)
        ends = {each.durable: timestamp(await queue_control.pause(connection, each, seconds)) for each in found}
    if json_output:
        emit({"paused": ends})
        return
    for durable, until in ends.items():
        write_line(f"{durable} is paused until {until}")


@reported
def resume(name: Name, *, pool: Pool = "default", task_class: OneClass = None, json_output: JsonOutput = False) -> None:
    """Resume a paused queue."""
    asyncio.run(_resume(_chosen_queues(name, pool, task_class), json_output=json_output))


async def _resume(chosen: tuple[Consumer, ...] | None, *, json_output: bool) -> None:
    from gatewright.bus.jetstream import queue_control

    async with _connection() as connection:
        found = chosen if chosen is not None else await queue_control.intake_queues(connection)
        were_paused = {each.durable: await queue_control.resume(connection, each) for each in found}
    if json_output:
        emit({"resumed": [durable for durable, paused in were_paused.items() if paused]})
        return
    for durable, paused in were_paused.items():
        write_line(f"{durable} {'goes on' if paused else 'was not paused'}")


def _chosen_queues(name: str, pool: str, task_class: Class | None) -> tuple[Consumer, ...] | None:
    """Return the named queues; None for the queues of all publishers, which the server lists."""
    from gatewright.bus.subjects import check_pool
    from gatewright.bus.topology import TASK_ROLES, task_consumer, task_consumers

    if name == "intake":
        return None
    role = next((role for role in TASK_ROLES if role == name), None)
    if role is None:
        raise MalformedError(f"no queue is called {name!r}: name a role, or intake", code="queue_unknown")
    check_pool(pool)
    return (task_consumer(role, pool, task_class.value),) if task_class else task_consumers(role, pool)


@contextlib.asynccontextmanager
async def _connection() -> AsyncIterator[Connection]:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client
    from gatewright.bus.jetstream.bus import JetStreamBus

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        if not isinstance(client.bus, JetStreamBus):
            raise BusError("queues are controlled on a NATS server only")
        yield client.bus.connection


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One entry of ``queue list --json``. ``oldest_sec``: age of the oldest waiting message; 0 if none waits."""

    queue: str
    subject: str
    waiting: int
    in_hand: int
    oldest_sec: float
    requests: int
    paused_until: str | None


def queue_entry(state: QueueState) -> QueueEntry:
    depth = state.depth
    return QueueEntry(
        queue=depth.queue.durable,
        subject=depth.queue.subject,
        waiting=depth.waiting,
        in_hand=depth.in_hand,
        oldest_sec=round(depth.oldest, 3),
        requests=depth.pulls,
        paused_until=timestamp(state.paused_until) if state.paused_until else None,
    )


def queue_table(entries: Sequence[QueueEntry]) -> list[str]:
    """Format the list. A queue without a requesting process is one whose role does not run, or is busy."""
    width = max((len(entry.queue) for entry in entries), default=5)
    lines = [f"{'QUEUE':<{width}} {'WAITING':>7} {'ACTIVE':>7} {'OLDEST':>8} {'ASKING':>6}  PAUSED UNTIL"]
    for entry in entries:
        oldest = age(entry.oldest_sec) if entry.waiting else "-"
        lines.append(
            f"{entry.queue:<{width}} {entry.waiting:>7} {entry.in_hand:>7} {oldest:>8} {entry.requests:>6}  "
            f"{entry.paused_until or '-'}"
        )
    return lines


def parse_duration(text: str) -> float:
    """Parse ``90s``, ``10m``, ``2h`` or ``1d`` into seconds. Raises MalformedError."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise MalformedError(f"{text!r} is no length of time: write 90s, 10m, 2h or 1d", code="invalid_input")
    return float(found.group(1)) * _SECONDS[found.group(2)]


def register(app: typer.Typer) -> None:
    dead.command("list")(list_letters)
    dead.command("show")(show)
    dead.command("requeue")(requeue)
    dead.command("drop")(drop)
    app.add_typer(dead, name="dead")
    _register_queues(app)
