"""``watch``, ``runs``, ``show`` and ``status``: commands that only look."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput, RunArgument, known_runs
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.runs.read_models import ReadModelKind
    from gatewright.app.cli.runs.sources import RunSource


def register(app: typer.Typer) -> None:
    app.command()(watch)
    app.command()(runs)
    app.command()(show)
    app.command()(status)


@reported
def watch(
    run: RunArgument = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for a run that is to come.", show_default="for ever"),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Follow a run live until it has ended; one that is to come is waited for. Ctrl-C stops watching; the run goes on."""
    import asyncio

    raise typer.Exit(asyncio.run(_watch(run, timeout, json_output=json_output)))


async def _watch(wanted: str | None, patience: float | None, *, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.output import note
    from gatewright.app.cli.run.following import follow_to_end
    from gatewright.app.cli.run.waiting import attached_when_there, no_longer_than, run_when_there

    place = find_place()
    async with no_longer_than(patience) as bound, attached_when_there(place, note) as client:
        run_id = await run_when_there(client, wanted, note)
        bound.reschedule(None)
        return await follow_to_end(client, run_id, place.own_home, json_output=json_output)


@reported
def runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many at most.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="RUN", help="Those older than this run.", autocompletion=known_runs)
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """List the newest runs, the newest last."""
    import asyncio

    asyncio.run(_runs(limit, before, json_output=json_output))


async def _runs(limit: int, before: str | None, *, json_output: bool) -> None:
    from gatewright.app.cli.output import note
    from gatewright.app.cli.runs.listing import entry_of, table
    from gatewright.app.cli.runs.sources import find_run

    async with _source() as source:
        page = await source.page(limit, before and await find_run(source, before))
        waits = await source.system_waits()
    entries = [entry_of(view, page.claims) for view in reversed(page.views)]
    if json_output:
        emit({"runs": entries, "more": page.more, "waits": waits})
        return
    for wait in waits:
        note(f"open runs wait: {printable(wait.detail)}")
    if page.more:
        note(f"older ones: gatewright runs --before {entries[0].run_id}")
    for line in table(entries):
        say(line)


@reported
def show(
    run: RunArgument = None,
    packet: Annotated[
        bool, typer.Option("--packet", help="The Completion Proposal and Delivery Packet in Markdown, from the bundle.")
    ] = False,
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="From the bundle, as brief, done, blocked, decisions, trail, provenance, progress or memory; or its roles, as "
            "role_contract_summary, role_binding_summary, role_binding_read_model or workflow_case_read_model.",
        ),
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="All that the commands of the run printed.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Show a run: its state, its tasks, every gate's verdict, what it came to and where its evidence lies."""
    import asyncio

    from gatewright.app.cli.runs.read_models import READ_MODELS

    role_model = next((each for each in READ_MODELS if each == kind), None)
    if role_model is not None and not packet:
        asyncio.run(_show_read_model(run, role_model, json_output=json_output))
    elif packet or kind is not None:
        _show_document(run, kind, json_output=json_output)
    elif log:
        asyncio.run(_log(run, json_output=json_output))
    else:
        asyncio.run(_show(run, json_output=json_output))


def _show_document(wanted: str | None, kind: str | None, *, json_output: bool) -> None:
    from gatewright.app.cli.bundles.work_documents import document_of, lines_of, locate, packet_of

    folder = locate(wanted)
    if kind is None:
        text = packet_of(folder)
        if json_output:
            emit({"packet": text})
        else:
            say(text)
        return
    document = document_of(kind, folder)
    if json_output:
        emit(document)
        return
    for line in lines_of(document):
        say(printable(line))


def _folder(wanted: str | None) -> Path | None:
    """The bundle that a path names; None where it names none, and is a run."""
    return folder if wanted is not None and (folder := Path(wanted).absolute()).is_dir() else None


async def _show_read_model(wanted: str | None, kind: ReadModelKind, *, json_output: bool) -> None:
    from gatewright.app.cli.bundles.work_documents import lines_of
    from gatewright.app.cli.runs.read_models import read_model
    from gatewright.app.cli.runs.sources import BundleSource, find_run, run_of

    folder = _folder(wanted)
    if folder is not None:
        beside = BundleSource(folder.parent, lambda text: say(printable(text), stream=sys.stderr), folder="")
        document = await read_model(kind, beside, folder.name)
    else:
        async with _source(wanted) as source:
            document = await read_model(kind, source, await find_run(source, run_of(wanted)))
    if json_output:
        emit(document)
        return
    for line in lines_of(document):
        say(printable(line))


async def _show(wanted: str | None, *, json_output: bool) -> None:
    from datetime import UTC, datetime

    from gatewright.app.cli.runs.listing import details_of, story
    from gatewright.app.cli.runs.outputs import with_tails
    from gatewright.app.cli.runs.sources import find_run, run_of

    async with _source(wanted) as source:
        view = await with_tails(await source.view(await find_run(source, run_of(wanted))), source.output)
        waits, claims = await source.waits(view), await source.claims(view.run.run_id)
    if json_output:
        emit(details_of(view, datetime.now(UTC), waits, claims))
        return
    for line in story(view, datetime.now(UTC), waits, claims):
        say(line)


async def _log(wanted: str | None, *, json_output: bool) -> None:
    from gatewright.app.cli.runs.outputs import read_stream, shown_lines, streams_of
    from gatewright.app.cli.runs.sources import find_run, run_of

    async with _source(wanted) as source:
        view = await source.view(await find_run(source, run_of(wanted)))
        read = [(stream, await read_stream(stream, view, source.output)) for stream in streams_of(view.run)]
    if json_output:
        log = [{"title": stream.title, "text": (data or b"").decode("utf-8", "replace")} for stream, data in read]
        emit({"run_id": view.run.run_id, "log": log})
        return
    if not read:
        say(f"no command of {view.run.run_id} has printed anything")
    for stream, data in read:
        say(f"== {stream.title}")
        for line in shown_lines(data or b""):
            say(line)


@reported
def status(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run id; without one, the stack.", autocompletion=known_runs)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Ask until it has ended and its bundle is sealed.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Ask the gatekeeper how a run stands; without a run, show the stack of this home folder.

    Works with a publisher's own identity, which need not see the ledger. With --wait, exit code 1 when the run did not succeed.
    """
    import asyncio

    if run is None:
        _show_stack(wait=wait, json_output=json_output)
        return
    raise typer.Exit(asyncio.run(_status(run, wait=wait, json_output=json_output)))


def _show_stack(*, wait: bool, json_output: bool) -> None:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.operations.stack_status import stack_document, stack_words
    from gatewright.errors import MalformedError

    place = find_place()
    if wait or place.bus is not None:
        words = "--wait needs a run" if wait else "GATEWRIGHT_NATS_URL names a system that runs elsewhere"
        raise MalformedError(f"{words}: name a run, or ask `gatewright doctor --cluster`", code="invalid_input")
    if json_output:
        emit({"stack": stack_document(place.home)})
    else:
        say(printable(stack_words(place.home)))


async def _status(run_id: str, *, wait: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.cli.runs.standing import standing
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        found = await (client.ended(run_id) if wait else client.status(run_id))
    if json_output:
        emit(found)
    else:
        for line in standing(found):
            say(line)
    return Exit.FAILED if wait and found.status != "SUCCESS" else Exit.GOOD


@contextlib.asynccontextmanager
async def _source(wanted: str | None = None) -> AsyncIterator[RunSource]:
    """The ledger of the system that runs now; without one, the bundles of the home folder; for an address, the bundle there."""
    from gatewright.app.cli.bundles.stored import fetch_bundle
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.sources import BundleSource
    from gatewright.app.cli.session import attach_client
    from gatewright.app.stack.state import read
    from gatewright.evidence.store.address import is_address

    if wanted is not None and is_address(wanted):
        yield BundleSource(fetch_bundle(wanted).parent, lambda text: say(printable(text), stream=sys.stderr), folder="")
        return
    place = find_place()
    if place.bus is None and read(place.home) is None:
        yield BundleSource(place.home, lambda text: say(printable(text), stream=sys.stderr))
        return
    async with attach_client(place.bus, place.home) as client:
        yield LedgerSource(client, place.own_home)
