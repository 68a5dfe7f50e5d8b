"""A connection as an approver: of the running stack, or of the bus that was named; and the answers that are sent by it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.output import note
from gatewright.app.cli.people.inbox import named
from gatewright.app.cli.people.signing import sign_decision
from gatewright.app.cli.session import while_it_runs
from gatewright.app.stack.state import read
from gatewright.bus.identities import APPROVER, load
from gatewright.client.approvals import ApprovalInbox
from gatewright.clock import timestamp
from gatewright.contracts import ApprovalsRequest, DecisionReply
from gatewright.contracts.people.approvals import ApprovalStanding, DecisionVerdict, SignedDecision
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.rules.approvals import decision_on
from gatewright.rules.transfers import transfer_lines
from gatewright.view.safe_text import printable
from gatewright.work_documents.request_summary import target_words, yes_words

_PATIENCE = 3.0
#: As many as one answer may hold.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says of each request that is named. ``phrase`` None: it is asked for where a rule wants one.

    ``delegate_to``: who is asked in the person's place, where it is a delegation.
    """

    verdict: DecisionVerdict
    person: str
    key: Path
    comment: str = ""
    phrase: str | None = None
    delegate_to: str | None = None


def for_approver(place: CommandContext, seed: Path | None) -> CommandContext | None:
    """The place as an approver reaches it: with ``seed`` where a bus was named; None where that is missing.

    Raises ConfigurationError (``identity_invalid``) for the seed of another identity.
    """
    if place.bus is None:
        return place
    if seed is None:
        return None
    if (named := load(seed).identity) != APPROVER:
        raise ConfigurationError(f"{seed} is the seed of {named}: decisions are brought by {APPROVER}", code="identity_invalid")
    return replace(place, bus=replace(place.bus, seed=seed))


@contextlib.asynccontextmanager
async def open_inbox(place: CommandContext) -> AsyncIterator[ApprovalInbox]:
    """An inbox of the system that runs now.

    Raises UnavailableError (``no_stack``, ``stack_gone``), BusError; ConfigurationError for a seed that is not an approver's.
    """
    from gatewright.bus.jetstream.bus import JetStreamBus

    address = place.bus
    running: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
    if address is None:
        state = read(place.home)
        if state is None:
            words = "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL and the seed of an approver"
            raise UnavailableError(words, code="no_stack")
        address, running = state.address(APPROVER), while_it_runs(place.home, state.url)
    bus = await JetStreamBus.connect(address, name=APPROVER, patience=_PATIENCE)
    try:
        async with running:
            yield ApprovalInbox(bus)
    finally:
        await bus.close()


async def waiting(inbox: ApprovalInbox) -> tuple[ApprovalStanding, ...]:
    """Everything that waits for an answer."""
    return (await inbox.listed(ApprovalsRequest(pending_only=True, limit=MOST))).approvals


def signed_answers(requests: Sequence[ApprovalStanding], answer: Answer, now: datetime) -> list[SignedDecision]:
    """An own signed record for each request."""
    return [_sign_decision(each, answer, now) for each in requests]


#: How requests become signed answers: in this thread, or in another one.
SignAnswers = Callable[[Sequence[ApprovalStanding], Answer, datetime], Awaitable[list[SignedDecision]]]


async def signed_aside(requests: Sequence[ApprovalStanding], answer: Answer, now: datetime) -> list[SignedDecision]:
    """``signed_answers`` in a thread of its own, while the connection is kept alive."""
    return await asyncio.to_thread(signed_answers, requests, answer, now)


async def decide_requests(
    place: CommandContext, names: Sequence[str], answer: Answer, now: datetime, sign: SignAnswers = signed_aside
) -> DecisionReply:
    """Answer all that waits under ``names``, together or not at all.

    Raises MalformedError (``approval_unknown``, ...), DeniedError, ConfigurationError, UnavailableError, BusError.
    """
    async with open_inbox(place) as inbox:
        requests = named(await waiting(inbox), names)
        return await inbox.decide(await sign(requests, answer, now))


def _sign_decision(standing: ApprovalStanding, answer: Answer, now: datetime) -> SignedDecision:
    request = standing.request
    phrase = answer.phrase or ""
    if answer.verdict == "approve" and standing.summary is not None and standing.summary.moved is not None:
        note(f"{request.request_id}: {target_words(standing.summary)}")
        note(f"on yes: {yes_words(request, standing.summary)}")
    for line in transfer_lines(request.transfers) if answer.verdict == "approve" else ():
        note(printable(line))
    if request.phrase and answer.verdict == "approve" and answer.phrase is None and sys.stdin.isatty():
        phrase = input(f"{request.request_id} ({printable(request.why)})\ntype exactly {printable(request.phrase)!r}: ")
    said = {"verdict": answer.verdict, "person": answer.person, "decided_at": timestamp(now), "comment": answer.comment}
    words = {"phrase": phrase if request.phrase else "", "delegate_to": answer.delegate_to}
    return sign_decision(decision_on(request, **said, **words), answer.key)
