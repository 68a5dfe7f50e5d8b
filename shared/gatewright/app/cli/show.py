"""``watch``, ``runs``, ``show`` and ``status``: read-only commands."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from gatewright.app.cli.options import JsonOutput, RunArgument, Verbose, known_runs
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, note, reported, terminal_width, write_line
from gatewright.app.cli.stack import stack_document, stack_words
from gatewright.errors import MalformedError, UnavailableError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cli.runs.sources import RunSource
    from gatewright.client.client import Client
    from gatewright.contracts import (
        RoleBindingReadModel,
        RoleBindingSummary,
        RoleContractSummary,
        RunStatus,
        WorkflowCaseReadModel,
    )
    from gatewright.contracts.run_status import TaskStanding

#: Seconds between two checks for a stack, or for a first run.
_LOOK_AGAIN = 0.2
ReadModelKind = Literal["role_contract_summary", "role_binding_summary", "role_binding_read_model", "workflow_case_read_model"]
READ_MODELS: tuple[ReadModelKind, ...] = get_args(ReadModelKind)
#: Number of newest runs among which the runs of a case are searched.
_MOST_RUNS = 50


def register(app: typer.Typer) -> None:
    app.command()(watch)
    app.command()(runs)
    app.command()(show)
    app.command()(status)


@reported
def watch(
    run: RunArgument = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="Time limit for the run to appear", show_default="none")
    ] = None,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Follow a run live until it ends.

    If the run does not exist yet, this command waits for it. Ctrl-C stops watching, and the run continues.
    """
    raise typer.Exit(asyncio.run(_watch(run, timeout, verbose=verbose, json_output=json_output)))


async def _watch(wanted: str | None, patience: float | None, *, verbose: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.run.following import follow_to_end

    place = find_place()
    async with bound_wait(patience) as bound, attach_when_running(place, note) as client:
        run_id = await wait_for_run(client, wanted, note)
        bound.reschedule(None)
        return await follow_to_end(client, run_id, place.own_home, json_output=json_output, verbose=verbose)


@reported
def runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of runs")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="RUN", help="List only runs older than this one", autocompletion=known_runs)
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """List recent runs, newest last."""
    asyncio.run(_runs(limit, before, json_output=json_output))


async def _runs(limit: int, before: str | None, *, json_output: bool) -> None:
    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.runs.listing import run_entry, run_table
    from gatewright.app.cli.runs.sources import find_run

    async with open_source() as source:
        page = await source.page(limit, before and await find_run(source, before))
        waits = await source.system_waits()
    entries = [run_entry(view, page.claims) for view in reversed(page.views)]
    if json_output:
        emit({"runs": entries, "more": page.more, "waits": waits})
        return
    for wait in waits:
        note(f"open runs wait: {printable(wait.detail)}")
    if page.more:
        note(f"older ones: gatewright runs --before {entries[0].run_id}")
    for line in run_table(entries, terminal_width()):
        write_line(line)


@reported
def show(
    run: RunArgument = None,
    packet: Annotated[
        bool, typer.Option("--packet", help="Print the Completion Proposal and Delivery Packet from the bundle")
    ] = False,
    kind: Annotated[str | None, typer.Option("--as", metavar="KIND", help="Print a document from the bundle")] = None,
    log: Annotated[bool, typer.Option("--log", help="Print the output of all commands of the run")] = False,
    verbose: Verbose = False,
    json_output: JsonOutput = False,
) -> None:
    """Show a run: state, tasks, verdicts, result and evidence.

    A KIND is brief, done, blocked, decisions, trail, provenance, progress, memory or inventory. A KIND for other tools is
    cyclonedx or spdx. A KIND about roles is role_contract_summary, role_binding_summary, role_binding_read_model or
    workflow_case_read_model.
    """
    role_model = next((each for each in READ_MODELS if each == kind), None)
    if role_model is not None and not packet:
        asyncio.run(_show_read_model(run, role_model, json_output=json_output))
    elif packet or kind is not None:
        _show_document(run, kind, json_output=json_output)
    elif log:
        asyncio.run(_log(run, json_output=json_output))
    else:
        asyncio.run(_show(run, verbose=verbose, json_output=json_output))


def _show_document(wanted: str | None, kind: str | None, *, json_output: bool) -> None:
    from gatewright.app.bills_of_materials import EXPORTS
    from gatewright.app.cli.work_documents import document_lines, exported_inventory, locate_bundle, packet_text, work_document

    folder = locate_bundle(wanted)
    if kind in EXPORTS:
        write_line(exported_inventory(kind, folder).rstrip("\n"))
        return
    if kind is None:
        text = packet_text(folder)
        if json_output:
            emit({"packet": text})
        else:
            write_line(text)
        return
    document = work_document(kind, folder)
    if json_output:
        emit(document)
        return
    for line in document_lines(document):
        write_line(printable(line))


def _folder(wanted: str | None) -> Path | None:
    """Return the bundle if ``wanted`` is a path; None if it is a run."""
    return folder if wanted is not None and (folder := Path(wanted).absolute()).is_dir() else None


async def _show_read_model(wanted: str | None, kind: ReadModelKind, *, json_output: bool) -> None:
    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.runs.sources import BundleSource, find_run, run_of
    from gatewright.app.cli.work_documents import document_lines

    folder = _folder(wanted)
    if folder is not None:
        beside = BundleSource(folder.parent, lambda text: write_line(printable(text), stream=sys.stderr), folder="")
        document = await read_model(kind, beside, folder.name)
    else:
        async with open_source(wanted) as source:
            document = await read_model(kind, source, await find_run(source, run_of(wanted)))
    if json_output:
        emit(document)
        return
    for line in document_lines(document):
        write_line(printable(line))


async def _show(wanted: str | None, *, verbose: bool, json_output: bool) -> None:
    import msgspec

    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.results import ResultRecords
    from gatewright.app.cli.runs.listing import run_details, run_story
    from gatewright.app.cli.runs.result import with_details
    from gatewright.app.cli.runs.sources import find_run, run_of

    async with open_source(wanted) as source:
        view = await with_details(await source.view(await find_run(source, run_of(wanted))), source.output)
        waits, claims = await source.waits(view), await source.claims(view.run.run_id)
    records = ResultRecords.of_run(view.run.run_id)
    if json_output:
        details = run_details(view, datetime.now(UTC), waits, claims)
        emit({**msgspec.to_builtins(details), **records.document} if records.document else details)
        return
    for line in run_story(view, datetime.now(UTC), waits, claims, verbose=verbose, width=terminal_width()):
        write_line(line)
    for line in records.lines(11):
        write_line(printable(line))


async def _log(wanted: str | None, *, json_output: bool) -> None:
    from gatewright.app.cli.bundle_sources import open_source
    from gatewright.app.cli.runs.result import read_stream, shown_lines, streams_of
    from gatewright.app.cli.runs.sources import find_run, run_of

    async with open_source(wanted) as source:
        view = await source.view(await find_run(source, run_of(wanted)))
        read = [(stream, await read_stream(stream, view, source.output)) for stream in streams_of(view.run)]
    if json_output:
        log = [{"title": stream.title, "text": (data or b"").decode("utf-8", "replace")} for stream, data in read]
        emit({"run_id": view.run.run_id, "log": log})
        return
    if not read:
        write_line(f"no command of {view.run.run_id} has printed anything")
    for stream, data in read:
        write_line(f"== {stream.title}")
        for line in shown_lines(data or b""):
            write_line(line)


@reported
def status(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Full run id; without it, show the stack", autocompletion=known_runs)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended and its bundle is sealed")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Show the status of a run, or of the stack.

    This command also works with the identity of a publisher, which cannot read the ledger. With --wait, exit code 1 means
    that the run did not succeed.
    """
    if run is None:
        _show_stack(wait=wait, json_output=json_output)
        return
    raise typer.Exit(asyncio.run(_status(run, wait=wait, json_output=json_output)))


def _show_stack(*, wait: bool, json_output: bool) -> None:
    from gatewright.app.cli.context import find_place

    place = find_place()
    if wait or place.bus is not None:
        words = "--wait needs a run" if wait else "GATEWRIGHT_NATS_URL names a system that runs elsewhere"
        raise MalformedError(f"{words}: name a run, or ask `gatewright doctor --cluster`", code="invalid_input")
    if json_output:
        emit({"stack": stack_document(place.home)})
    else:
        write_line(printable(stack_words(place.home)))


async def _status(run_id: str, *, wait: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        found = await (client.ended(run_id) if wait else client.status(run_id))
    if json_output:
        emit(found)
    else:
        for line in status_lines(found):
            write_line(line)
    return Exit.FAILED if wait and found.status != "SUCCESS" else Exit.GOOD


@contextlib.asynccontextmanager
async def attach_when_running(place: CommandContext, note: Callable[[str], None]) -> AsyncIterator[Client]:
    """Connect a client to the running system; wait for one in the home folder. Raises BusError."""
    from gatewright.app.cli.session import attach_client
    from gatewright.app.stack.state import read

    notified = place.bus is not None
    while place.bus is None and read(place.home) is None:
        if not notified:
            note("no stack runs here yet: waiting for one (Ctrl-C stops waiting)")
            notified = True
        await asyncio.sleep(_LOOK_AGAIN)
    async with attach_client(place.bus, place.home) as client:
        yield client


async def wait_for_run(client: Client, wanted: str | None, note: Callable[[str], None]) -> str:
    """Return the id of the wanted run once it exists: the newest or next run, or the one with that id.

    Raises:
        MalformedError: ``run_unknown`` or ``run_ambiguous``, this cannot be the id of a future run.
    """
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.sources import find_run
    from gatewright.evidence.store.address import is_run

    source = LedgerSource(client)
    by_id = wanted is not None and is_run(wanted)  # only a full id can be that of a future run
    notified = False
    while True:
        try:
            run_id = await find_run(source, wanted)
            if by_id:
                await source.view(run_id)  # not checked yet whether that run exists
        except MalformedError as error:
            if error.reason != "run_unknown" or not (by_id or wanted is None):
                raise
        else:
            return run_id
        if not notified:
            note(f"there is no {wanted} yet: waiting for it" if wanted else "there are no runs yet: waiting for the first one")
            notified = True
        if wanted is not None:
            async with contextlib.aclosing(client.follow(wanted)) as events:
                await anext(events)
            return wanted
        await asyncio.sleep(_LOOK_AGAIN)


@contextlib.asynccontextmanager
async def bound_wait(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Limit the wait for a run; ``reschedule(None)`` when it exists. Raises UnavailableError (``run_not_there``)."""
    try:
        async with asyncio.timeout(seconds) as bound:
            yield bound
    except TimeoutError:
        if not bound.expired():
            raise
        raise UnavailableError(f"no such run came within {seconds:g} s", code="run_not_there") from None


def status_lines(status: RunStatus) -> list[str]:
    """Format the state of a run: current work, refusals, and the location of its evidence."""
    from gatewright.run.states import stage_name

    lines = [f"{status.run_id}   {status.status}   {stage_name(status.state)} since {printable(status.since)}"]
    lines.append(f"  publisher  {printable(status.publisher)}")
    if status.silent_since is not None and status.status == "RUNNING":
        lines.append(
            f"  silent since {printable(status.silent_since)}: no process claims it; is there one for what is "
            "RUNNING below, and does it still move? A run that is silent for long can be ended with `gatewright abort`"
        )
    lines += [f"  {task.role:<10} {task.status}{_claim_words(task)}" for task in status.tasks if task.status == "RUNNING"]
    if status.waiting_for_locks and status.status == "RUNNING":
        lines.append("  waits for paths that another run holds")
    lines += [f"  ✘ {gate.gate} {printable(gate.code)}" for gate in status.gates if gate.verdict == "FAIL"]
    if status.code is not None:
        lines.append(f"  {printable(status.code)}: {printable(status.message or '')}")
    if status.landed is not None and status.landed.ref:
        lines.append(f"  landed     {printable(status.landed.commit)} on {printable(status.landed.ref)}")
    if status.bundle is not None:
        lines.append(
            f"  bundle     {printable(status.bundle.location)} (manifest sha256 {printable(status.bundle.manifest_sha256)})"
        )
    return lines


def _claim_words(task: TaskStanding) -> str:
    """Format the last claim of a task, and the time since which claims are missing."""
    words = []
    if task.claimed_at is not None:
        doing = f"{task.phase or 'working'}" + (f", last {task.activity}" if task.activity else "")
        doing += f", by process {task.process}" if task.process else ""
        words.append(f"claimed {printable(task.claimed_at)} ({doing})")
    if task.silent_since is not None:
        words.append(f"silent since {printable(task.silent_since)}")
    return "  " + ", ".join(words) if words else ""


async def read_model(
    kind: ReadModelKind, source: RunSource, run_id: str
) -> RoleContractSummary | RoleBindingSummary | RoleBindingReadModel | WorkflowCaseReadModel:
    """Build a read model of a run.

    Raises MalformedError (``run_unknown``; ``no_contract`` for the role of a run without one).
    """
    from gatewright.ledger.role_bindings import (
        role_binding_read_model,
        role_binding_summary,
        role_contract_summary,
        workflow_case,
    )

    run = (await source.view(run_id)).run
    match kind:
        case "role_contract_summary":
            if run.contract is None:
                raise MalformedError(f"{run.run_id} has no contract, and so no role", code="no_contract")
            return role_contract_summary(run.contract)
        case "role_binding_summary":
            return role_binding_summary(run)
        case "role_binding_read_model":
            return role_binding_read_model(run)
        case "workflow_case_read_model":
            return workflow_case(run, (await source.page(_MOST_RUNS, None)).runs)
