"""``dead``: messages that were given up, and what becomes of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.tasks.dead_letters import DeadLetter, DeadLetters

dead = typer.Typer(help="Messages that could not be handled: look at them, put them back, or drop them.", no_args_is_help=True)

LetterArgument = Annotated[int, typer.Argument(metavar="LETTER", min=1, help="The number that `dead list` shows.")]
LettersArgument = Annotated[list[int], typer.Argument(metavar="LETTER...", min=1, help="Numbers that `dead list` shows.")]


def register(app: typer.Typer) -> None:
    dead.command("list")(list_letters)
    dead.command("show")(show)
    dead.command("requeue")(requeue)
    dead.command("drop")(drop)
    app.add_typer(dead, name="dead")


@reported
def list_letters(
    *,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="Only those that this role gave up.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those too that were decided about.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """List the dead letters that no operator has decided about, oldest first."""
    import asyncio

    asyncio.run(_list(role, everything=everything, json_output=json_output))


async def _list(role: str | None, *, everything: bool, json_output: bool) -> None:
    from gatewright.app.cli.operations.dead_letters import entry_of, table
    from gatewright.clock import SystemClock

    async with _letters() as letters:
        found = await letters.all()
    now = SystemClock().now()
    wanted = (each for each in found if (everything or each.decision is None) and role in (None, each.role))
    entries = [entry_of(letter, now) for letter in wanted]
    if json_output:
        emit({"letters": entries})
        return
    for line in table(entries):
        say(line)


@reported
def show(letter: LetterArgument, json_output: JsonOutput = False) -> None:
    """Show a dead letter: why it died, its headers, and the original message."""
    import asyncio

    asyncio.run(_show(letter, json_output=json_output))


async def _show(sequence: int, *, json_output: bool) -> None:
    from gatewright.app.cli.operations.dead_letters import details_of, story
    from gatewright.clock import SystemClock

    async with _letters() as letters:
        letter = await letters.find(sequence)
        body = await letters.original(letter)
    now = SystemClock().now()
    if json_output:
        emit(details_of(letter, body, now))
        return
    for line in story(letter, body, now):
        say(line)


@reported
def requeue(
    letters: LettersArgument,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What has changed; it is written down.")] = "",
    json_output: JsonOutput = False,
) -> None:
    """Put the original messages back into their queues, as new ones. The letters stay, marked as requeued."""
    import asyncio

    asyncio.run(_decide(letters, "requeued", reason, json_output=json_output))


@reported
def drop(
    letters: LettersArgument,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why nothing is to be done; it is written down.")],
    json_output: JsonOutput = False,
) -> None:
    """Mark dead letters as dealt with. Nothing is deleted; `dead list --all` shows them."""
    import asyncio

    asyncio.run(_decide(letters, "dropped", reason, json_output=json_output))


async def _decide(sequences: list[int], verdict: str, reason: str, *, json_output: bool) -> None:
    done: list[DeadLetter] = []
    async with _letters() as letters:
        for sequence in dict.fromkeys(sequences):
            decide = letters.requeue if verdict == "requeued" else letters.drop
            letter = await decide(sequence, reason)
            done.append(letter)
            if not json_output:
                say(f"{letter.sequence} {verdict}: {printable(letter.subject)}")
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
