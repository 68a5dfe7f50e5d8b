"""``queue``: list, pause and resume the queues of roles."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.dead_letters import age
from gatewright.app.cli.options import Class, JsonOutput
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.clock import timestamp
from gatewright.errors import BusError, MalformedError

if TYPE_CHECKING:
    from gatewright.bus.jetstream.connection import Connection
    from gatewright.bus.jetstream.queue_control import QueueState
    from gatewright.bus.topology import Consumer

queue = typer.Typer(help="Show, pause and resume work queues.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ROLE", help="pm, techlead, worker, reviewer, testrunner or intake")]
Length = Annotated[str, typer.Option("--for", metavar="TIME", help="Duration, such as 90s, 10m, 2h or 1d")]
Pool = Annotated[str, typer.Option(metavar="NAME", help="Pool of the role")]
OneClass = Annotated[Class | None, typer.Option("--class", help="Priority of the tasks (default: all)")]
_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h|d)")  # noqa: TID251 - the operator's own text
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def register(app: typer.Typer) -> None:
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
    lines = [f"{'QUEUE':<{width}} {'WAITING':>7} {'IN HAND':>7} {'OLDEST':>8} {'ASKING':>6}  PAUSED UNTIL"]
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
