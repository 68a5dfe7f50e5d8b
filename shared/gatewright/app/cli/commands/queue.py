"""``queue``: the work queues, and stopping one for a while."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import Class, JsonOutput
from gatewright.app.cli.output import emit, reported, say

if TYPE_CHECKING:
    from gatewright.bus.jetstream.connection import Connection
    from gatewright.bus.topology import Consumer

queue = typer.Typer(help="The work queues: how much waits, and stopping one for a while.", no_args_is_help=True)


Name = Annotated[str, typer.Argument(metavar="ROLE", help="pm, techlead, worker, reviewer, testrunner; or intake.")]
Length = Annotated[str, typer.Option("--for", metavar="TIME", help="90s, 10m, 2h or 1d; then it goes on by itself.")]
Pool = Annotated[str, typer.Option(metavar="POOL", help="Which pool of the role.")]
OneClass = Annotated[Class | None, typer.Option("--class", help="Only tasks of this priority; by default all.")]


def register(app: typer.Typer) -> None:
    queue.command("list")(list_queues)
    queue.command("pause")(pause)
    queue.command("resume")(resume)
    app.add_typer(queue, name="queue")


@reported
def list_queues(json_output: JsonOutput = False) -> None:
    """List the queues: what waits, what is in hand, how long the oldest has waited, and whether it is paused."""
    import asyncio

    asyncio.run(_list(json_output=json_output))


async def _list(*, json_output: bool) -> None:
    import asyncio

    from gatewright.app.cli.operations.queues import entry_of, table
    from gatewright.bus.jetstream.queue_control import queues, state_of

    async with _connection() as connection:
        states = await asyncio.gather(*(state_of(connection, each) for each in await queues(connection)))
    entries = [entry_of(state) for state in states if state is not None]
    if json_output:
        emit({"queues": entries})
        return
    for line in table(entries):
        say(line)


@reported
def pause(
    name: Name,
    *,
    duration: Length = "1h",
    pool: Pool = "default",
    task_class: OneClass = None,
    json_output: JsonOutput = False,
) -> None:
    """Give out no more tasks for a while. What is in hand is finished; what comes in waits."""
    import asyncio

    from gatewright.app.cli.operations.queues import seconds_of

    asyncio.run(_pause(_chosen_queues(name, pool, task_class), seconds_of(duration), json_output=json_output))


async def _pause(chosen: tuple[Consumer, ...] | None, seconds: float, *, json_output: bool) -> None:
    from gatewright.bus.jetstream import queue_control
    from gatewright.clock import timestamp

    async with _connection() as connection:
        found = chosen if chosen is not None else await queue_control.intake_queues(connection)
        ends = {each.durable: timestamp(await queue_control.pause(connection, each, seconds)) for each in found}
    if json_output:
        emit({"paused": ends})
        return
    for durable, until in ends.items():
        say(f"{durable} is paused until {until}")


@reported
def resume(name: Name, *, pool: Pool = "default", task_class: OneClass = None, json_output: JsonOutput = False) -> None:
    """End a pause now."""
    import asyncio

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
        say(f"{durable} {'goes on' if paused else 'was not paused'}")


def _chosen_queues(name: str, pool: str, task_class: Class | None) -> tuple[Consumer, ...] | None:
    """None stands for the queues of all publishers, which the server knows."""
    from gatewright.bus.subjects import check_pool
    from gatewright.bus.topology import TASK_ROLES, task_consumer, task_consumers
    from gatewright.errors import MalformedError

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
    from gatewright.errors import BusError

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        if not isinstance(client.bus, JetStreamBus):
            raise BusError("queues are controlled on a NATS server only")
        yield client.bus.connection
