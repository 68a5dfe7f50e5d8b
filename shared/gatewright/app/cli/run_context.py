"""``context``, ``tests`` and ``budgets``: summaries of a run, of earlier runs, and of what all runs may spend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts import BudgetStates, CanonicalMemory, FlakyTests, RunContext

#: Columns of a table whose last one is never cut.
_WIDEST = 10_000
tests = typer.Typer(help="Show results of tests over several runs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command()(context)
    tests.command()(flaky)
    app.add_typer(tests, name="tests")
    app.command()(budgets)


@reported
def context(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="Run id or its beginning")] = None,
    *,
    repository: Annotated[
        str | None, typer.Option("--repo", metavar="PATH|URL", help="Summarize earlier runs of this repository instead")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION", help="Section to print: summary, decisions, review or diff", show_default="summary and decisions"
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Include superseded decisions and up to 64,000 characters per section")
    ] = False,
    json_output: JsonOutput = False,
) -> None:
    """Summarize a run for a model: decisions, votes and diff.

    The output is data blocks for a prompt. This command changes nothing.
    """
    import asyncio

    import msgspec

    from gatewright.errors import MalformedError

    if (run is None) == (repository is None):
        raise MalformedError("name a run, or a repository with --repo", code="missing")
    if repository is not None:
        memory = asyncio.run(ask_memory(repository))
        if json_output:
            emit(msgspec.to_builtins(memory))
            return
        for line in memory_lines(memory):
            write_line(line)
        return
    found = asyncio.run(ask_context(run or "", select or ["summary", "decisions"], full=full))
    if json_output:
        emit(msgspec.to_builtins(found))
        return
    for line in context_lines(found):
        write_line(line)
    note(f"{found.run_id} stood so after its event {found.seq}: {found.state}, round {found.attempt}")


async def ask_context(wanted: str, selectors: Sequence[str], *, full: bool) -> RunContext:
    """Request the context of a run from the gatekeeper.

    Raises MalformedError (``run_unknown``, ``run_expired``), UnavailableError, BusError.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.sources import find_run
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        return await client.context(run_id, selectors, scope="full" if full else "brief")


async def ask_memory(repository: str) -> CanonicalMemory:
    """Request a repository's memory. Raises MalformedError (``memory_unknown``, ``bad_url``), UnavailableError, BusError."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return await client.memory(_address_of(repository))


def _address_of(repository: str) -> str:
    """Return the absolute path of a folder; any other address is unchanged."""
    from pathlib import Path

    return str(Path(repository).resolve()) if Path(repository).is_dir() else repository


@reported
def flaky(
    repository: Annotated[
        str, typer.Option("--repo", metavar="PATH|URL", help="Only tests of this repository", show_default="all")
    ] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="Age limit of runs, such as 12h or 90d")] = "30d",
    json_output: JsonOutput = False,
) -> None:
    """List tests that failed and passed on one tree, with their rates."""
    import asyncio

    import msgspec

    from gatewright.app.cli.queues import parse_duration
    from gatewright.contracts.run_status import MOST_FLAKY_DAYS
    from gatewright.errors import MalformedError

    seconds = int(parse_duration(since))
    if not 1 <= seconds <= MOST_FLAKY_DAYS * 86_400:
        raise MalformedError(f"--since is between 1s and {MOST_FLAKY_DAYS}d", code="invalid_input")
    found = asyncio.run(_ask_flaky_tests(_address_of(repository) if repository else "", seconds))
    if json_output:
        entries = [{**msgspec.to_builtins(each), "percent": each.percent} for each in found.tests]
        emit({"tests": entries, "reports": found.reports, "more": found.more})
        return
    for line in flaky_lines(found):
        write_line(line)


@reported
def budgets(json_output: JsonOutput = False) -> None:
    """List budgets of the organisation: what runs have used and reserved."""
    import asyncio

    import msgspec

    found = asyncio.run(_ask_budgets())
    if json_output:
        emit({"budgets": [{**msgspec.structs.asdict(each), "share": round(each.share, 4)} for each in found.budgets]})
        return
    for line in budget_lines(found):
        write_line(line)


async def _ask_budgets() -> BudgetStates:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return await client.budgets()


def budget_lines(found: BudgetStates) -> list[str]:
    """Format the table of budgets; a mark stands at each that is nearly used."""
    from gatewright.app.cli.runs.listing import table_lines
    from gatewright.contracts.run_status import NEARLY_USED
    from gatewright.view.budgets import organisation_bars

    if not found.budgets:
        return ["no budget of the organisation limits these runs (budgets.json)"]
    rows = [("", "BUDGET", "USED", "OPEN RUNS", "RENEWED")]
    amounts = ["USED AND RESERVED (REPOSITORIES)"]
    for each in found.budgets:
        mark = "!" if each.share >= NEARLY_USED else ""
        rows.append((mark, f"{each.name}/{each.period}", f"{each.share:.0%}", str(each.runs), each.ends[:16]))
        bars = ", ".join(bar.words for bar in organisation_bars(each))
        amounts.append(printable(f"{bars} ({', '.join(each.repositories)})"))
    return table_lines(rows, amounts, _WIDEST)


async def _ask_flaky_tests(repository: str, seconds: int) -> FlakyTests:
    from gatewright.app.cli.bundle_sources import open_source

    async with open_source() as source:
        return await source.flaky_tests(repository, seconds)


def flaky_lines(found: FlakyTests) -> list[str]:
    """Format the table of flaky tests."""
    import shlex

    from gatewright.app.cli.runs.listing import table_lines

    if not found.tests:
        return [f"no flaky tests: no test failed and passed on one tree in {found.reports} test reports"]
    rows = [("RATE", "FAILED", "FLAKY TREES", "LAST FAILURE")]
    rows += [
        (f"{each.percent} %", f"{each.failures} of {each.plays}", str(each.flaky_trees), each.last_run) for each in found.tests
    ]
    tests = [printable(f"{each.test} ({shlex.join(each.cmd_argv)}) {each.repository}") for each in found.tests]
    more = ["and more: name a repository or a shorter time"] if found.more else []
    return [*table_lines(rows, ["TEST (COMMAND) REPOSITORY", *tests], _WIDEST), *more]


def memory_lines(memory: CanonicalMemory) -> Iterator[str]:
    """Format the memory as models receive it: data inside a fence."""
    from gatewright.order_artifacts.canonical_memory import lines_of as memory_text
    from gatewright.prompts.prompt import fence_text

    yield from fence_text("canonical memory of earlier runs", "\n".join(memory_text(memory))).split("\n")


def context_lines(found: RunContext) -> Iterator[str]:
    """Format every section as received: a block of data with its line ends, all else made printable."""
    for section in found.sections:
        yield f"{section.selector}{' (cut: --full prints all)' if section.cut else ''}"
        yield from (printable(line) for line in section.text.split("\n"))
