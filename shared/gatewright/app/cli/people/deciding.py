"""``approvals``: signed answers of a person to open requests; also the group of all commands about approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.app.cli.people.granting import grant, grants, revoke
from gatewright.app.cli.people.inbox import list_approvals, named, open_inbox, show, stats, waiting
from gatewright.app.cli.people.notices import watch
from gatewright.app.cli.people.signing import As, Comment, Key, roster_line, sign_decision, signing_identity
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.contracts import DecisionReply
    from gatewright.contracts.people.approvals import ApprovalStanding, DecisionVerdict, SignedDecision

approvals = typer.Typer(help="List, show and answer requests for approval.", no_args_is_help=True)

Named = Annotated[list[str], typer.Argument(metavar="REQUEST|RUN...", help="Request ids, or runs for all their open requests")]


def register(app: typer.Typer) -> None:
    approvals.command("list")(list_approvals)
    approvals.command("key")(roster_line)
    for command in (show, approve, reject, comment, delegate, watch, stats, grant, grants, revoke):
        approvals.command()(command)
    app.add_typer(approvals, name="approvals")


@reported
def approve(
    names: Named,
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    phrase: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Exact phrase that the rule requires", show_default="prompt")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Approve one or more requests with your signature.

    Each request receives its own signature. Either all decisions are valid, or none is.
    """
    _decide(names, _build_answer("approve", person, key, comment, phrase), json_output=json_output)


@reported
def reject(names: Named, *, key: Key = None, person: As = "", comment: Comment = "", json_output: JsonOutput = False) -> None:
    """Reject requests; the run ends without landing."""
    _decide(names, _build_answer("reject", person, key, comment), json_output=json_output)


@reported
def comment(
    names: Named,
    text: Annotated[str, typer.Option(metavar="TEXT", help="Text of the comment")],
    *,
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Add a comment; the run keeps waiting."""
    _decide(names, _build_answer("comment", person, key, text), json_output=json_output)


@reported
def delegate(
    names: Named,
    to: Annotated[str, typer.Option(metavar="NAME", help="Name of the other person on the roster")],
    *,
    key: Key = None,
    person: As = "",
    comment: Comment = "",
    json_output: JsonOutput = False,
) -> None:
    """Delegate requests to another person who may decide them.

    Afterwards you can neither answer them nor take them back.
    """
    _decide(names, replace(_build_answer("delegate", person, key, comment), delegate_to=to), json_output=json_output)


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to each named request. ``phrase`` None: prompt for it where a rule requires one.

    ``delegate_to``: the person who is asked instead, for a delegation.
    """

    verdict: DecisionVerdict
    person: str
    key: Path
    comment: str = ""
    phrase: str | None = None
    delegate_to: str | None = None


def _build_answer(verdict: DecisionVerdict, person: str, key: Path | None, words: str, phrase: str | None = None) -> Answer:
    from gatewright.app.cli.context import find_place

    return Answer(verdict, *signing_identity(find_place(), person, key), words, phrase)


def _decide(names: list[str], answer: Answer, *, json_output: bool) -> None:
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.clock import SystemClock

    reply = asyncio.run(decide_requests(find_place(), names, answer, SystemClock().now()))
    if json_output:
        recorded = [{"request_id": each.request_id, "verdict": each.verdict, "state": each.state} for each in reply.recorded]
        emit({"recorded": recorded, "person": answer.person})
        return
    for each in reply.recorded:
        write_line(printable(f"{each.request_id}: {each.verdict} by {each.person}; the run stands in {each.state}"))
    note("`gatewright show RUN` prints what follows")


def signed_answers(requests: Sequence[ApprovalStanding], answer: Answer, now: datetime) -> list[SignedDecision]:
    """Sign one record for each request."""
    return [_sign_decision(each, answer, now) for each in requests]


#: Signs the answers to requests, in this thread or in another one.
SignAnswers: TypeAlias = "Callable[[Sequence[ApprovalStanding], Answer, datetime], Awaitable[list[SignedDecision]]]"


async def signed_aside(requests: Sequence[ApprovalStanding], answer: Answer, now: datetime) -> list[SignedDecision]:
    """Run ``signed_answers`` in a separate thread, while the connection stays alive."""
    import asyncio

    return await asyncio.to_thread(signed_answers, requests, answer, now)


async def decide_requests(
    place: CommandContext, names: Sequence[str], answer: Answer, now: datetime, sign: SignAnswers = signed_aside
) -> DecisionReply:
    """Answer all requests of ``names``, together or not at all.

    Raises MalformedError (``approval_unknown``, ...), DeniedError, ConfigurationError, UnavailableError, BusError.
    """
    async with open_inbox(place) as inbox:
        requests = named(await waiting(inbox), names)
        return await inbox.decide(await sign(requests, answer, now))


def _sign_decision(standing: ApprovalStanding, answer: Answer, now: datetime) -> SignedDecision:
    import sys

    from gatewright.clock import timestamp
    from gatewright.rules.approvals import decision_on
    from gatewright.rules.transfers import transfer_lines
    from gatewright.work_documents.request_summary import target_words, yes_words

    request = standing.request
    phrase = answer.phrase or ""
    if answer.verdict == "approve" and standing.summary is not None and standing.summary.moved is not None:
        note(f"{request.request_id}: {target_words(standing.summary)}")
        note(f"on yes: {yes_words(request, standing.summary)}")
    for line in transfer_lines(request.transfers) if answer.verdict == "approve" else ():
        note(printable(line))
    if request.phrase and answer.verdict == "approve" and answer.phrase is None and sys.stdin.isatty():
        phrase = input(f"{request.request_id} ({printable(request.why)})\ntype exactly {printable(request.phrase)!r}: ")
    fields = {"verdict": answer.verdict, "person": answer.person, "decided_at": timestamp(now), "comment": answer.comment}
    words = {"phrase": phrase if request.phrase else "", "delegate_to": answer.delegate_to}
    return sign_decision(decision_on(request, **fields, **words), answer.key)
