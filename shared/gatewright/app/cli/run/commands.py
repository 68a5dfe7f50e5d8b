"""Commands that order or end runs: ``run`` and those of other kinds, ``revert``, ``submit`` and ``abort``."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.help_screen import HelpCommand, show_all_options
from gatewright.app.cli.options import (
    JsonOutput,
    PlanOptions,
    ResearchOptions,
    RevertOptions,
    ReviewOptions,
    TestOptions,
    Verbose,
    grouped,
)
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.app.cli.schemas import read_submittable
from gatewright.errors import MalformedError
from gatewright.order_form.run_options import RunOptions, order_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cli.run.ahead import Begun
    from gatewright.app.cli.run.display import Display
    from gatewright.app.cli.run.start import WantedRevert
    from gatewright.contracts import RunRequest, TaskContract
    from gatewright.view.run_view import RunView

#: Maximum seconds until an aborted run has ended and is sealed.
ABORT_WAIT = 30.0
_HELP_RUN = """Make a change, judge it, test it and land it.

An agent (--agent), model (--model) or command (--exec) makes the change in a sandbox. You can also give a diff (--patch) \
or existing commits (--head). The change may touch only the --allow paths. It lands only if every --test command succeeds.

    gatewright run "rename parse to read" --allow src \\
      --agent codex --test "python -m pytest -q" --env auto
"""


class RunHelp(HelpCommand):
    """The help of ``run``: a few options first, and all of them with ``--help-all``."""

    first_screen = frozenset({*(row.name for row in order_rows() if row.first_screen), "json_output", "help", "help_all"})


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_RUN, cls=RunHelp)(run)
    app.command()(plan)
    app.command()(review_commits)
    app.command("test")(run_tests)
    app.command()(research)
    app.command()(revert)
    app.command()(submit)
    app.command()(abort)


@reported
@grouped
def run(
    context: typer.Context,
    *,
    options: RunOptions,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
    help_all: Annotated[  # noqa: ARG001 - its callback ends the program
        bool, typer.Option("--help-all", callback=show_all_options, is_eager=True, help="Show all options")
    ] = False,
) -> None:
    _begin_order(context, options, verbose=verbose, json_output=json_output)


@reported
@grouped
def plan(context: typer.Context, *, options: PlanOptions, verbose: Verbose = False, json_output: JsonOutput = False) -> None:
    """Plan a change without making it.

    The plan has the batches and paths that a run would have. A run can read it with `gatewright run --input`.
    """
    _begin_order(context, replace(options.order, task_type="PLAN", land="none"), verbose=verbose, json_output=json_output)


@reported
@grouped
def review_commits(
    context: typer.Context,
    *,
    options: ReviewOptions,
    span: Annotated[str | None, typer.Option("--range", metavar="A..B", help="Change from commit A to commit B")] = None,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Review commits that exist, without landing anything.

    With `--head`, the review is of what the branch adds to `--ref`. Exit code 1 means that a finding blocks.
    """
    order = replace(options.order, task_type="REVIEW", land="none", span=span)
    _begin_order(context, order, verbose=verbose, json_output=json_output)


@reported
@grouped
def run_tests(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[-- CMD...]", help="Command that must succeed")] = None,
    *,
    options: TestOptions,
    suggested: Annotated[
        str | None, typer.Option("--suggested", metavar="RUN[:N]", help="Hidden tests that RUN's model tester suggested")
    ] = None,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Test a commit in the sandbox, without landing anything.

    With `--suggested`, the commit is what RUN landed. Exit code 1 means that a test failed.
    """
    import shlex

    given = (shlex.join(command),) if command else ()
    order = replace(options.order, task_type="TEST", land="none", tests=(*options.order.tests, *given))
    with contextlib.nullcontext(order) if suggested is None else _with_suggested(order, suggested) as whole:
        _begin_order(context, whole, verbose=verbose, json_output=json_output)


@contextlib.contextmanager
def _with_suggested(order: RunOptions, wanted: str) -> Iterator[RunOptions]:
    """Yield ``order`` with the suggested tests as hidden ones, beside its own or the run's.

    Those run again with the files of a suggestion that names no command.

    Raises:
        MalformedError: the run has no such suggestion (``suggestion_unknown``), or landed nothing (``invalid_input``).
    """
    import tempfile

    from gatewright.app.cli.bundle_sources import read_run

    run_id, _, number = wanted.partition(":")
    run = asyncio.run(read_run(run_id))
    asked = [each.answer for each in run.summonses.values() if each.answer is not None]
    cases = [each for answer in asked for each in answer.missed if each.test is not None or each.command is not None]
    chosen = cases if not number else cases[int(number) - 1 : int(number)] if number.isdecimal() and number != "0" else []
    if not chosen:
        words = f"{run.run_id} has {len(cases)} suggested tests: name one of them, as RUN:N"
        raise MalformedError(words, code="suggestion_unknown")
    if run.landed is None or not run.landed.commit or run.contract is None or run.contract.repository is None:
        raise MalformedError(f"{run.run_id} landed no commit that could be tested", code="invalid_input")
    usual = order.tests or tuple(each.cmd for each in run.contract.acceptance_tests if not each.hidden)
    commands = [command for each in chosen for command in ((each.command,) if each.command is not None else usual)]
    with tempfile.TemporaryDirectory(prefix="gatewright-suggested-") as folder:
        files = {}
        for at, test in enumerate(each.test for each in chosen if each.test is not None):
            files[test.path] = Path(folder, str(at))
            files[test.path].write_text(test.content, "utf-8")
        yield replace(
            order,
            tests=usual,
            hidden_tests=tuple(dict.fromkeys((*order.hidden_tests, *commands))),
            hidden_files=(*order.hidden_files, *(f"{path}={file}" for path, file in files.items())),
            ref=run.landed.commit,
            repo=order.repo or run.contract.repository.url,
        )


@reported
@grouped
def research(
    context: typer.Context,
    *,
    options: ResearchOptions,
    document: Annotated[list[Path] | None, typer.Option("--document", metavar="FILE", help="Document to search")] = None,
    findings: Annotated[
        Path | None, typer.Option("--findings", metavar="FILE", help="Findings of an outside researcher to judge instead")
    ] = None,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Answer a question with claims that quote their sources.

    A model searches the documents and the services of research.json. Exit code 1 means that a quote does not hold.
    """
    order = replace(options.order, task_type="SEARCH", land="none", documents=tuple(document or ()), findings=findings)
    _begin_order(context, order, verbose=verbose, json_output=json_output)


def _begin_order(context: typer.Context, options: RunOptions, *, verbose: bool, json_output: bool) -> None:
    from gatewright.app.cli.run.ahead import Begun, begin_ahead

    with contextlib.nullcontext(context.obj) if isinstance(context.obj, Begun) else begin_ahead() as begun:
        raise typer.Exit(_run_order(begun, options, verbose=verbose, json_output=json_output))


def _run_order(
    begun: Begun, options: RunOptions, *, verbose: bool, json_output: bool, revert: WantedRevert | None = None
) -> int:
    # Imported late: it takes half as long as the start of the fork server, which runs on another core.
    from gatewright.app.cli.run.ahead import linger_minutes
    from gatewright.app.cli.run.start import start_run

    linger, ahead = linger_minutes(options.linger), begun.ahead
    started = start_run(
        options, verbose=verbose, json_output=json_output, ahead=ahead, linger=linger, ask=_ask_owner, revert=revert
    )
    return begun.runner.run(started)


@reported
@grouped
def revert(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id or its beginning")],
    *,
    options: RevertOptions,
    target_ref: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Branch to revert on", show_default="where the run landed")
    ] = None,
    repo: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Present address of the repository", show_default="as recorded")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the record")] = "",
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Revert what a run landed, by a run of its own.

    Its patch is the inverse of the landed commit. Landing, branch and tests are those of the run, unless you name others. \
All gates and approvals apply.
    """
    from gatewright.app.cli.run.ahead import Begun, begin_ahead
    from gatewright.app.cli.run.start import WantedRevert

    wanted = WantedRevert(run_id, options, target_ref, repo, reason)
    with contextlib.nullcontext(context.obj) if isinstance(context.obj, Begun) else begin_ahead() as begun:
        raise typer.Exit(_run_order(begun, options.order, verbose=verbose, json_output=json_output, revert=wanted))


def _ask_owner(place: CommandContext, display: Display) -> AbstractAsyncContextManager[Callable[[RunView], None]]:
    # Imported late: most runs ask for nothing.
    from gatewright.app.cli.run.questions import owner_asked

    return owner_asked(place, display)


@reported
def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Run request or task contract as JSON (- reads standard input)")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it ends")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Submit a run request or task contract to the running system.

    The run belongs to you, unless the document names another person.
    """
    from gatewright.app.cli.user_git import with_orderer

    document = with_orderer(read_submittable(file), Path())
    raise typer.Exit(asyncio.run(_submit(document, wait=wait, json_output=json_output)))


async def _submit(document: RunRequest | TaskContract, *, wait: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.run.following import follow_to_end
    from gatewright.app.cli.session import attach_client
    from gatewright.contracts import RunRequest

    place = find_place()
    async with attach_client(place.bus, place.home, lasting=True) as client:
        if isinstance(document, RunRequest):
            run_id = await client.submit_request(document)
        else:
            run_id = await client.submit_contract(document)
        if wait:
            return await follow_to_end(client, run_id, place.own_home, json_output=json_output)
    answer: dict[str, Any] = {"run_id": run_id}
    if json_output:
        emit(answer)
    else:
        write_line(f"accepted {run_id}\n  next: gatewright watch {run_id}")
    return 0


@reported
def abort(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id or its beginning")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the record")] = "aborted by the operator",
    json_output: JsonOutput = False,
) -> None:
    """Stop an open run without landing its change.

    The bundle of the run records ABORTED.
    """
    raise typer.Exit(asyncio.run(_abort(run_id, reason, json_output=json_output)))


async def _abort(wanted: str, reason: str, *, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.result import result_of
    from gatewright.app.cli.runs.sources import find_run
    from gatewright.app.cli.session import attach_client
    from gatewright.view.run_view import view_of

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        await client.abort(run_id, reason)
        await client.wait(run_id, timeout=ABORT_WAIT)
        view = view_of(await client.events(run_id))
    if view is not None and json_output:
        emit(result_of(view))
    elif view is not None:
        write_line(f"{run_id} is {view.run.status}\n  bundle {view.bundle}")
    return 0
