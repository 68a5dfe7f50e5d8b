"""Questions to roles as a person asks them on the command line, and the lines that their answers are shown in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from gatewright.app.cli.context import find_place
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.sources import find_run
from gatewright.app.cli.session import attach_client
from gatewright.contracts import SummonsAnswer, SummonsList
from gatewright.contracts.people.summons import SummonsItem, SummonsStanding
from gatewright.errors import MalformedError
from gatewright.view.safe_text import printable


def items_of(roles: Sequence[str], question: str, kind: str, constraints: Sequence[str]) -> tuple[SummonsItem, ...]:
    """The words of a command as questions, one for each role. Raises MalformedError (``bad_summons``) for what is none."""
    plain = [{"role": role, "question": question, "kind": kind, "constraints": constraints} for role in dict.fromkeys(roles)]
    try:
        return msgspec.convert(plain, tuple[SummonsItem, ...])
    except msgspec.ValidationError as error:
        raise MalformedError(f"that is no question to a role: {error}", code="bad_summons") from error


async def summon(wanted: str, items: Sequence[SummonsItem], seconds: float | None) -> SummonsList:
    """Ask about a run, where there is something to ask, and wait ``seconds`` for the answers (None: not at all).

    Raises what the gatekeeper refuses questions for, UnavailableError, BusError.
    """
    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        listed = await client.summon(run_id, items) if items else await client.summonses(run_id)
        if seconds is None or not items:
            return listed
        return await client.summons_answered(listed, timeout=seconds)


def shown_standings(listed: SummonsList) -> tuple[SummonsStanding, ...]:
    """Those that this request is about: what it asked, or all."""
    return tuple(each for each in listed.summonses if not listed.asked or each.task.task_id in listed.asked)


def lines_of(listed: SummonsList) -> Iterator[str]:
    """For people. What a role says is its own word: a claim, and printable."""
    for each in shown_standings(listed):
        item = each.task.item
        yield printable(f"{item.role} ({item.kind}): {item.question}")
        if each.answer is None:
            yield "  no answer yet"
        else:
            yield from _answer(each.answer)
    if not listed.summonses:
        yield f"no role was asked about {listed.run_id}"


def _answer(answer: SummonsAnswer) -> Iterator[str]:
    if answer.status == "NOT_ANSWERED":
        yield printable(f"  not answered: {answer.code}: {answer.message}")
        return
    yield from (printable(f"  {line}") for line in answer.answer.splitlines())
    for place in answer.evidence:
        yield printable(f"  at {place.path}{f':{place.line}' if place.line else ''}: {place.note}")
    for each in answer.open_questions:
        yield printable(f"  open: {each}")
    yield printable(f"  ({answer.agent_id}; confidence {answer.confidence}; no gate reads this)")
