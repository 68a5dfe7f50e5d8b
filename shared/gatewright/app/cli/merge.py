"""``merge``: show, hold, resume and change merge queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput, known_runs
from gatewright.app.cli.output import emit, reported, say
from gatewright.errors import MalformedError
from gatewright.view.safe_text import fit, printable

if TYPE_CHECKING:
    from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView

merge = typer.Typer(help="Show, hold and change merge queues.", no_args_is_help=True)
Queue = Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Queue id or branch (default: the only queue)")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run id or its beginning", autocompletion=known_runs)]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason, for people")]
_COLUMNS = 80


def register(app: typer.Typer) -> None:
    merge.command("list")(list_queues)
    merge.command("show")(show_queue)
    merge.command("hold")(hold)
    merge.command("resume")(resume)
    merge.command("dequeue")(dequeue)
    merge.command("move")(move)
    app.add_typer(merge, name="merge")


@reported
def list_queues(json_output: JsonOutput = False) -> None:
    """List merge queues: branch, entries, positions and holds."""
    queues = asyncio.run(_queues(None))
    if json_output:
        emit({"queues": _builtins(queues)})
        return
    for line in queue_lines(queues):
        say(line)


@reported
def show_queue(queue: Queue = None, *, json_output: JsonOutput = False) -> None:
    """Draw a merge queue: base, positions with their runs, waiting runs."""
    from gatewright.view.merge_queue import line_drawing

    view = chosen_queue(asyncio.run(_queues(queue)), queue)
    if json_output:
        emit(_builtins(view))
        return
    for line in line_drawing(view, datetime.now(UTC)):
        say(line)


@reported
def hold(queue: Queue = None, *, reason: Reason = "", json_output: JsonOutput = False) -> None:
    """Hold a merge queue; tests and pushes in progress finish."""
    _report(asyncio.run(_act("hold", queue, reason=reason)), json_output=json_output)


@reported
def resume(queue: Queue = None, *, json_output: JsonOutput = False) -> None:
    """Resume a held merge queue."""
    _report(asyncio.run(_act("resume", queue)), json_output=json_output)


@reported
def dequeue(run: Run, *, reason: Reason = "", json_output: JsonOutput = False) -> None:
    """Take a run out of its merge queue; it does not land."""
    _report(asyncio.run(_act("dequeue", None, run, reason=reason)), json_output=json_output)


@reported
def move(
    run: Run,
    *,
    ahead_of: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run to move it before", show_default="the end of the queue")
    ] = None,
    reason: Reason = "",
    json_output: JsonOutput = False,
) -> None:
    """Move a run within its merge queue."""
    _report(asyncio.run(_act("move", None, run, ahead_of=ahead_of, reason=reason)), json_output=json_output)


async def _queues(wanted: str | None) -> tuple[MergeQueueView, ...]:
    """Return the merge queues that fit ``wanted``, a queue id or a branch; all of them without it."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return fitting(await client.merge_queues(), wanted)


async def _act(
    action: MergeActionKind, wanted: str | None, run: str | None = None, *, ahead_of: str | None = None, reason: str = ""
) -> MergeQueueView:
    """Apply an action to the named queue, or to the queue of the run; return the queue. The server permits operators only."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client
    from gatewright.app.cli.user_git import user_name

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        queues = await client.merge_queues()
        run_id = queued_run(queues, run) if run is not None else None
        ahead = queued_run(queues, ahead_of) if ahead_of is not None else ""
        queue_id = chosen_queue(fitting(queues, wanted), wanted).queue_id if run is None else None
        return await client.merge_act(
            action, queue_id=queue_id, run_id=run_id, ahead_of=ahead, reason=reason, requested_by=user_name()
        )


def fitting(queues: Sequence[MergeQueueView], wanted: str | None) -> tuple[MergeQueueView, ...]:
    """Return the queues with this id, this beginning of an id, or this branch; all without ``wanted``."""
    if wanted is None:
        return tuple(queues)
    branch = wanted.removeprefix("refs/heads/")
    return tuple(each for each in queues if each.queue_id.startswith(wanted) or each.branch == branch)


def chosen_queue(queues: Sequence[MergeQueueView], wanted: str | None) -> MergeQueueView:
    """Return the only queue of ``queues``. Raises MalformedError (``merge_queue_unknown``)."""
    if len(queues) == 1:
        return queues[0]
    if queues:
        names = ", ".join(f"{each.queue_id} ({each.branch})" for each in queues[:5])
        raise MalformedError(f"{len(queues)} merge queues fit; name one of {names}", code="merge_queue_unknown")
    words = f"there is no merge queue {wanted!r}" if wanted is not None else "there is no merge queue"
    raise MalformedError(words, code="merge_queue_unknown")


def queued_run(queues: Sequence[MergeQueueView], wanted: str) -> str:
    """Return the id of the queued run that ``wanted`` begins. Raises MalformedError (``merge_entry_unknown``)."""
    found = [each.run_id for queue in queues for each in queue.entries if each.run_id.startswith(wanted)]
    if wanted in found:
        return wanted
    if len(found) == 1:
        return found[0]
    words = f"{len(found)} queued runs begin with {wanted}" if found else f"no queued run begins with {wanted}"
    raise MalformedError(words, code="merge_entry_unknown")


def queue_lines(queues: Sequence[MergeQueueView]) -> list[str]:
    """Format the list in at most 80 columns."""
    from gatewright.view.merge_queue import hold_words

    if not queues:
        return ["No merge queue. A run with the landing mode `queue` creates the queue of its branch."]
    lines = [f"{'QUEUE':<20} {'QUEUED':>6} {'POSITIONS':>9}  BRANCH"]
    for each in queues:
        place = printable(f"{each.branch} of {each.repository}")
        line = f"{each.queue_id} {each.length:>6} {len(each.positions):>9}  {place}"
        lines.append(line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…")
        if each.held is not None:
            lines.append(fit(f"  {hold_words(each.held)}", _COLUMNS))
    return lines


def _report(view: MergeQueueView, *, json_output: bool) -> None:
    from gatewright.view.merge_queue import summary_words

    if json_output:
        emit(_builtins(view))
    else:
        say(printable(f"{view.branch} of {view.repository}: {summary_words(view)}"))


def _builtins(document: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(document)
