"""What people decide and ask: ``approvals``, signed answers to open requests; ``review``, votes on a change, and their status;
``summon``, read-only questions to roles about an open run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
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
    from gatewright.contracts import DecisionReply, SummonsAnswer, SummonsList
    from gatewright.contracts.people.approvals import ApprovalStanding, DecisionVerdict, SignedDecision
    from gatewright.contracts.people.review_votes import ReviewStanding, ReviewVote
    from gatewright.contracts.people.summons import SummonsItem, SummonsStanding


approvals = typer.Typer(help="List, show and answer requests for approval.", no_args_is_help=True)

Named = Annotated[list[str], typer.Argument(metavar="REQUEST|RUN...", help="Request ids, or runs for all their open requests")]


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


review = typer.Typer(help="Vote on a change under review.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="REQUEST|RUN", help="Request id, or the run under review")]


def _register_reviews(app: typer.Typer) -> None:
    for command in (vote, status):
        review.command()(command)
    app.add_typer(review, name="review")


@reported
def vote(
    name: Name,
    colour: Annotated[
        str, typer.Argument(metavar="green|yellow|red", help="green approves, yellow accepts with mitigations, red blocks")
    ],
    *,
    scope: Annotated[list[str], typer.Option(metavar="TEXT", help="Part of the change that you reviewed")],
    rationale: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the vote")],
    evidence: Annotated[list[str], typer.Option(metavar="ANCHOR", help="Evidence for the vote")],
    mitigation: Annotated[
        list[str] | None, typer.Option(metavar="ACTION|OWNER|YYYY-MM-DD", help="Mitigation that a yellow vote requires")
    ] = None,
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Vote on a change with your own key.

    The signature covers the contract and the tree under review. An ANCHOR is patch:PATH:LINE (-LINE for a removed line),
    tests:NUMBER or document:NAME. A document is contract, plan, review or tests.
    """
    import asyncio

    from gatewright.app.cli.context import find_place

    review_vote = vote_of(colour, scope, rationale, evidence, mitigation or [])
    found = asyncio.run(cast(name, review_vote, *signing_identity(find_place(), person, key)))
    if json_output:
        emit(_review_document(found))
        return
    for line in _review_lines(found):
        write_line(line)


@reported
def status(name: Name, json_output: JsonOutput = False) -> None:
    """Show a review: state, votes and what blocks consensus."""
    import asyncio

    from gatewright.contracts.people.review_votes import ReviewStanding

    found = asyncio.run(review_of(name))
    if isinstance(found, ReviewStanding):
        if json_output:
            emit(_plain_draft(name, found))
            return
        for line in (f"{name}: {found.phase}", *(f"wanting {printable(each)}" for each in found.blockers)):
            write_line(line)
        return
    if json_output:
        emit(_review_document(found))
        return
    for line in _review_lines(found):
        write_line(line)
    if found.review is not None and found.review.phase == "REVIEW":
        note("`gatewright review vote RUN green|yellow|red` votes; `gatewright approvals show RUN` shows the change")


def _review_document(found: ApprovalStanding) -> dict[str, object]:
    import msgspec

    request = found.request
    return {
        "request_id": request.request_id,
        "run_id": request.run_id,
        "candidate_tree": request.candidate_tree,
        "expires_at": request.expires_at,
        "review": msgspec.to_builtins(found.review),
    }


def _plain_draft(run_id: str, draft: ReviewStanding) -> dict[str, object]:
    import msgspec

    nothing = dict.fromkeys(("request_id", "candidate_tree", "expires_at"))
    return {**nothing, "run_id": run_id, "review": msgspec.to_builtins(draft)}


def _review_lines(found: ApprovalStanding) -> list[str]:
    standing = found.review
    if standing is None:
        return []
    lines = [f"{found.request.request_id}: {standing.phase}, tree {found.request.candidate_tree}"]
    lines += [f"{each.colour:<7} {printable(each.voter)}{_vote_words(each.vote)}" for each in standing.votes]
    sent_back = standing.consensus is not None and bool(standing.consensus.red)
    lines += [f"{'refused:' if sent_back else 'wanting'} {printable(each)}" for each in standing.blockers]
    if standing.consensus is not None and standing.consensus.duo:
        lines.append(f"the duo {printable(' and '.join(standing.consensus.duo))} stood in for the owner of the domain")
    return lines


def _vote_words(vote: ReviewVote | None) -> str:
    if vote is None:
        return ": its report passed"
    promised = "; ".join(f"{each.action} ({each.owner}, {each.due})" for each in vote.mitigations)
    return printable(f": {vote.rationale} [{', '.join(vote.evidence)}]{f' {promised}' if promised else ''}")


def vote_of(
    colour: str, scope: Sequence[str], rationale: str, evidence: Sequence[str], mitigations: Sequence[str]
) -> ReviewVote:
    """Build a vote from the options of a command. Raises MalformedError (``bad_vote``)."""
    import msgspec

    from gatewright.contracts.people.review_votes import ReviewVote
    from gatewright.errors import MalformedError

    promised = []
    for each in mitigations:
        action, owner, due = (*(part.strip() for part in each.split("|")), "", "")[:3]
        promised.append({"action": action, "owner": owner, "due": due})
    plain = {"colour": colour, "scope": scope, "rationale": rationale, "evidence": evidence, "mitigations": promised}
    try:
        return msgspec.convert(plain, ReviewVote)
    except msgspec.ValidationError as error:
        raise MalformedError(f"that is no vote: {error}", code="bad_vote") from error


async def cast(name: str, vote: ReviewVote, person: str, key: Path) -> ApprovalStanding:
    """Cast a vote, and return the status of the review after it. Raises as the gatekeeper refuses a decision."""
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.clock import SystemClock, timestamp
    from gatewright.rules.approvals import decision_on

    async with open_inbox(find_place()) as inbox:
        found = await inbox.review(name)
        fields = {"verdict": "vote", "person": person, "decided_at": timestamp(SystemClock().now()), "vote": vote}
        signed = await asyncio.to_thread(sign_decision, decision_on(found.request, **fields), key)
        await inbox.decide([signed])
        return await inbox.review(found.request.request_id)


async def review_of(name: str) -> ApprovalStanding | ReviewStanding:
    """Return the review of a request or a run, or the review that the run will request.

    Raises MalformedError (``approval_unknown``, ``run_unknown``).
    """
    from gatewright.app.cli.context import find_place

    async with open_inbox(find_place()) as inbox:
        draft = await inbox.draft(name) if ".ask." not in name else None
        return draft or await inbox.review(name)


#: Maximum seconds to wait for answers.
WAIT = 180.0


def _register_summons(app: typer.Typer) -> None:
    app.command()(summon)


@reported
def summon(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id or its beginning")],
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="Question to ask; without it, show earlier questions and answers")
    ] = None,
    *,
    role: Annotated[list[str] | None, typer.Option(metavar="pm|techlead|reviewer", help="Role to ask")] = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of question: review, qa, critique, research or plan")
    ] = "critique",
    constraint: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Constraint on the answer")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answers")] = True,
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="Time limit for the answers")] = WAIT,
    json_output: JsonOutput = False,
) -> None:
    """Ask roles a question about an open run.

    The answers are evidence. They start no work and satisfy no gate.
    """
    import asyncio

    import msgspec

    items = items_of(role or ["reviewer"], question, kind, constraint or []) if question is not None else ()
    listed = asyncio.run(ask_roles(run, items, timeout if wait else None))
    if json_output:
        emit(msgspec.to_builtins(listed))
    else:
        for line in lines_of(listed):
            write_line(line)
        note(f"{listed.left} more questions may be asked about this run")
    if items and wait and any(each.answer is None or each.answer.status != "ANSWERED" for each in shown_standings(listed)):
        raise typer.Exit(1)


def items_of(roles: Sequence[str], question: str, kind: str, constraints: Sequence[str]) -> tuple[SummonsItem, ...]:
    """Build one question for each role from the options. Raises MalformedError (``bad_summons``)."""
    import msgspec

    from gatewright.contracts.people.summons import SummonsItem
    from gatewright.errors import MalformedError

    plain = [{"role": role, "question": question, "kind": kind, "constraints": constraints} for role in dict.fromkeys(roles)]
    try:
        return msgspec.convert(plain, tuple[SummonsItem, ...])
    except msgspec.ValidationError as error:
        raise MalformedError(f"that is no question to a role: {error}", code="bad_summons") from error


async def ask_roles(wanted: str, items: Sequence[SummonsItem], seconds: float | None) -> SummonsList:
    """Ask about a run, if ``items`` has questions, and wait ``seconds`` for the answers (None: no wait).

    Raises UnavailableError, BusError, and as the gatekeeper refuses questions.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.sources import find_run
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        listed = await client.summon(run_id, items) if items else await client.summonses(run_id)
        if seconds is None or not items:
            return listed
        return await client.summons_answered(listed, timeout=seconds)


def shown_standings(listed: SummonsList) -> tuple[SummonsStanding, ...]:
    """Return the questions of this request, or all questions if it asked none."""
    return tuple(each for each in listed.summonses if not listed.asked or each.task.task_id in listed.asked)


def lines_of(listed: SummonsList) -> Iterator[str]:
    """Format the answers. A role's answer is an unverified claim, made printable."""
    for each in shown_standings(listed):
        item = each.task.item
        yield printable(f"{item.role} ({item.kind}): {item.question}")
        if each.answer is None:
            yield "  no answer yet"
        else:
            yield from _summons_answer_lines(each.answer)
    if not listed.summonses:
        yield f"no role was asked about {listed.run_id}"


def _summons_answer_lines(answer: SummonsAnswer) -> Iterator[str]:
    if answer.status == "NOT_ANSWERED":
        yield printable(f"  not answered: {answer.code}: {answer.message}")
        return
    yield from (printable(f"  {line}") for line in answer.answer.splitlines())
    for place in answer.evidence:
        yield printable(f"  at {place.path}{f':{place.line}' if place.line else ''}: {place.note}")
    for each in answer.open_questions:
        yield printable(f"  open: {each}")
    yield printable(f"  ({answer.agent_id}; confidence {answer.confidence}; no gate reads this)")


def register(app: typer.Typer) -> None:
    approvals.command("list")(list_approvals)
    approvals.command("key")(roster_line)
    for command in (show, approve, reject, comment, delegate, watch, stats, grant, grants, revoke):
        approvals.command()(command)
    app.add_typer(approvals, name="approvals")
    _register_reviews(app)
    _register_summons(app)
