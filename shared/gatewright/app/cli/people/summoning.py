"""``summon``: read-only questions to roles about an open run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts import SummonsAnswer, SummonsList
    from gatewright.contracts.people.summons import SummonsItem, SummonsStanding

#: Maximum seconds to wait for answers.
WAIT = 180.0


def register(app: typer.Typer) -> None:
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
