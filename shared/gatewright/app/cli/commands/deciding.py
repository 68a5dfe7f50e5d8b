"""``approvals``: what waits for people, and their signed answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.people.session import Answer
    from gatewright.contracts.people.approvals import ApprovalStanding, DecisionVerdict

approvals = typer.Typer(help="What waits for people, and their signed answers.", no_args_is_help=True)

Named = Annotated[list[str], typer.Argument(metavar="REQUEST|RUN...", help="Requests, or runs: all that waits in them.")]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Your SSH key, private or (held by an agent) public, or a PEM key.", show_default="~/.ssh"
    ),
]
As = Annotated[str, typer.Option("--as", metavar="NAME", help="Your name on the roster.", show_default="your account")]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="Words for the record.")]


def register(app: typer.Typer) -> None:
    approvals.command("list")(list_approvals)
    approvals.command("key")(roster_line)
    for command in (show, approve, reject, comment, delegate, watch, stats):
        approvals.command()(command)
    app.add_typer(approvals, name="approvals")


@reported
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Also what was answered, expired or withdrawn.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """List what waits for an answer, the most urgent first."""
    import asyncio

    from gatewright.app.cli.people.inbox import document_of, most_urgent_first, table
    from gatewright.clock import SystemClock

    found = most_urgent_first(asyncio.run(_list_standings(everything=everything)))
    if json_output:
        emit({"approvals": [document_of(each) for each in found]})
        return
    for line in table(found, SystemClock().now()):
        say(line)


@reported
def show(
    name: Annotated[str, typer.Argument(metavar="REQUEST|RUN", help="A request, or the run that asks.")],
    json_output: JsonOutput = False,
) -> None:
    """Show what is asked: why, by which rule, what the gates said, and the change."""
    import asyncio

    from gatewright.app.cli.people.inbox import document_of, named, page

    found = named(asyncio.run(_detail_standings(name.partition(".ask.")[0])), [name])
    if json_output:
        emit({"approvals": [document_of(each) for each in found]})
        return
    for each in found:
        for line in [*page(each), ""]:
            say(line)


@reported
def approve(
    names: Named,
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    phrase: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The exact words that the rule wants.", show_default="asked for")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Approve: several count together or not at all, each with a signature of its own."""
    _decide(names, _answer("approve", person, key, comment, phrase), json_output=json_output)


@reported
def reject(names: Named, *, key: Key = None, person: As = "", comment: Comment = "", json_output: JsonOutput = False) -> None:
    """Reject: the run ends, and nothing lands."""
    _decide(names, _answer("reject", person, key, comment), json_output=json_output)


@reported
def comment(
    names: Named,
    text: Annotated[str, typer.Option(metavar="TEXT", help="What you have to say.")],
    *,
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Say something for the record; the run goes on waiting."""
    _decide(names, _answer("comment", person, key, text), json_output=json_output)


@reported
def delegate(
    names: Named,
    to: Annotated[str, typer.Option(metavar="NAME", help="Who is asked in your place, as the roster names them.")],
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """Hand what waits for you to another person who may decide it. You cannot answer it then, nor take it back."""
    from dataclasses import replace

    _decide(names, replace(_answer("delegate", person, key, comment), delegate_to=to), json_output=json_output)


@reported
def roster_line(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An SSH key, private or public, or a PEM key.")],
    json_output: JsonOutput = False,
) -> None:
    """Print a key as the operator's roster holds it, and its fingerprint."""
    from gatewright.app.cli.people.signing import public_key
    from gatewright.ssh_signatures import fingerprint

    line = public_key(file)
    if json_output:
        emit({"key": line, "fingerprint": fingerprint(line)})
        return
    say(printable(line))
    note(fingerprint(line))


@reported
def watch(
    *,
    command: Annotated[
        str, typer.Option(metavar="COMMAND", help="Started for what is new, with the digest as JSON on its standard input.")
    ] = "",
    webhook: Annotated[str, typer.Option(metavar="URL", help="The digest is sent there by POST.")] = "",
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="How often the gatekeeper is asked.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Tell of what waits now, and end.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Tell of new requests as they come: here, to a command, to a webhook."""
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.notifying import Notifier, watch_inbox

    asyncio.run(watch_inbox(find_place(), Notifier(command, webhook), every, once=once, json_output=json_output))


@reported
def stats(json_output: JsonOutput = False) -> None:
    """How often each rule has asked, what people said, and how long they took."""
    import asyncio

    import msgspec

    from gatewright.app.cli.people.inbox import statistics_of, statistics_table

    found = statistics_of(asyncio.run(_list_standings(everything=True)))
    if json_output:
        emit({"rules": [msgspec.to_builtins(each) for each in found]})
        return
    for line in statistics_table(found):
        say(line)


def _answer(verdict: DecisionVerdict, person: str, key: Path | None, words: str, phrase: str | None = None) -> Answer:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.session import Answer
    from gatewright.app.cli.people.signing import signing_identity

    return Answer(verdict, *signing_identity(find_place(), person, key), words, phrase)


def _decide(names: list[str], answer: Answer, *, json_output: bool) -> None:
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.session import decide_requests
    from gatewright.clock import SystemClock

    reply = asyncio.run(decide_requests(find_place(), names, answer, SystemClock().now()))
    if json_output:
        recorded = [{"request_id": each.request_id, "verdict": each.verdict, "state": each.state} for each in reply.recorded]
        emit({"recorded": recorded, "person": answer.person})
        return
    for each in reply.recorded:
        say(printable(f"{each.request_id}: {each.verdict} by {each.person}; the run stands in {each.state}"))
    note("`gatewright show RUN` says how it goes on")


async def _list_standings(*, everything: bool) -> tuple[ApprovalStanding, ...]:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.session import MOST, open_inbox
    from gatewright.contracts import ApprovalsRequest

    async with open_inbox(find_place()) as inbox:
        return (await inbox.listed(ApprovalsRequest(pending_only=not everything, limit=MOST))).approvals


async def _detail_standings(run_id: str) -> tuple[ApprovalStanding, ...]:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.session import MOST, open_inbox
    from gatewright.contracts import ApprovalsRequest

    async with open_inbox(find_place()) as inbox:
        return (await inbox.listed(ApprovalsRequest(run_id=run_id, details=True, limit=MOST))).approvals
