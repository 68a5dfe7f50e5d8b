"""``top``: the board in a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, is_interactive, note, reported, write_line
from gatewright.clock import SystemClock
from gatewright.errors import MalformedError

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.top.steering import Steering


def register(app: typer.Typer) -> None:
    app.command()(top)


@reported
def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the current board as text, and exit")] = False,
    only: Annotated[str, typer.Option(metavar="TEXT", help="With --once or --json: show only runs with this text")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable approving and aborting")] = False,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your SSH key (private or public) or PEM key for approvals", show_default="~/.ssh"),
    ] = None,
    person: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Your name on the roster", show_default="your account")
    ] = "",
    json_output: JsonOutput = False,
) -> None:
    """Watch runs, requests and queues live in the terminal.

    Press Enter for one run in detail, a to approve, x to abort, and q to quit. Runs continue after you quit. With --json,
    this command prints the current board and exits.
    """
    from gatewright.app.cli.context import find_place

    if once or json_output:
        asyncio.run(_print(find_place(), only, json_output=json_output))
        return
    if not is_interactive():
        raise MalformedError("this is no terminal: `gatewright top --once` prints the board as text", code="no_terminal")
    place = find_place()
    asyncio.run(_show(place, steering_of(place, key, person, read_only=read_only)))


async def _show(place: CommandContext, steering: Steering) -> None:
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.top.sources import TopSources
    from gatewright.app.top.terminal import TopApp

    connect = ledger_readers(place)
    async with connect():
        pass  # report immediately what cannot be reached
    await TopApp(TopSources(connect, SystemClock()), steering).run_async()


async def _print(place: CommandContext, only: str, *, json_output: bool) -> None:
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.feed.link import read_once
    from gatewright.app.top.once import board_document, board_text
    from gatewright.app.top.surroundings import look_around
    from gatewright.view.filters import filter_of
    from gatewright.view.needs import needs_of

    async with ledger_readers(place)() as client:
        follower, surroundings = await read_once(client), await look_around(client)
    now, chosen = SystemClock().now(), filter_of({"text": only})
    needs = needs_of(follower.board, follower.letters, now, follower.silent)
    if json_output:
        emit(board_document(follower.board, needs, surroundings, chosen))
        return
    for line in board_text(follower.board, needs, surroundings, now, chosen):
        write_line(line)


def steering_of(place: CommandContext, key: Path | None, person: str, *, read_only: bool) -> Steering:
    """Return the actions of `gatewright approvals approve` for requests that are selected on the board."""
    from gatewright.app.cli.people.deciding import Answer, decide_requests, signed_answers
    from gatewright.app.cli.people.signing import signing_identity
    from gatewright.app.cli.user_git import user_name
    from gatewright.app.top.steering import Steering, WithTerminal
    from gatewright.contracts.people.approvals import ApprovalStanding, SignedDecision

    who = person or user_name()

    async def approve(request_id: str, phrase: str, with_terminal: WithTerminal) -> str:
        async def sign(requests: Sequence[ApprovalStanding], answer: Answer, now: datetime) -> list[SignedDecision]:
            def at_the_terminal() -> list[SignedDecision]:
                note(f"signing the approval of {request_id} with {answer.key}")
                return signed_answers(requests, answer, now)

            signed: list[SignedDecision] = with_terminal(at_the_terminal)
            return signed

        answer = Answer("approve", *signing_identity(place, person, key), "", phrase)
        reply = await decide_requests(place, [request_id], answer, SystemClock().now(), sign)
        return "\n".join(
            f"{each.request_id}: {each.verdict} by {each.person}; it stands in {each.state}" for each in reply.recorded
        )

    if read_only:
        return Steering()
    return Steering(approve, may_abort=True, signer=f"by {who}, with {key or 'the key of ~/.ssh'}")
