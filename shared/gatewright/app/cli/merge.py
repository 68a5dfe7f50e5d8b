"""``merge``: show, hold, resume and change merge queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput, known_runs
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.app.cli.people.signing import As, Key, sign_document, signing_identity
from gatewright.errors import MalformedError
from gatewright.view.safe_text import fit, printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.client.client import Client
    from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
    from gatewright.contracts.people.approvals import SignedDecision

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
        write_line(line)


@reported
def show_queue(queue: Queue = None, *, json_output: JsonOutput = False) -> None:
    """Draw a merge queue: base, positions with their runs, waiting runs."""
    from gatewright.view.merge_queue import line_drawing

    view = chosen_queue(asyncio.run(_queues(queue)), queue)
    if json_output:
        emit(_builtins(view))
        return
    for line in line_drawing(view, datetime.now(UTC)):
        write_line(line)


@reported
def hold(
    queue: Queue = None, *, reason: Reason = "", key: Key = None, person: As = "", json_output: JsonOutput = False
) -> None:
    """Hold a merge queue; tests and pushes in progress finish."""
    _print_queue(asyncio.run(_act(QueueOrder("hold", queue, reason=reason, key=key, person=person))), json_output=json_output)


@reported
def resume(queue: Queue = None, *, key: Key = None, person: As = "", json_output: JsonOutput = False) -> None:
    """Resume a held merge queue."""
    _print_queue(asyncio.run(_act(QueueOrder("resume", queue, key=key, person=person))), json_output=json_output)


@reported
def dequeue(run: Run, *, reason: Reason = "", key: Key = None, person: As = "", json_output: JsonOutput = False) -> None:
    """Take a run out of its merge queue; it does not land."""
    _print_queue(
        asyncio.run(_act(QueueOrder("dequeue", run=run, reason=reason, key=key, person=person))), json_output=json_output
    )


@reported
def move(
    run: Run,
    *,
    ahead_of: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run to move it before", show_default="the end of the queue")
    ] = None,
    reason: Reason = "",
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Move a run within its merge queue."""
    order = QueueOrder("move", run=run, ahead_of=ahead_of, reason=reason, key=key, person=person)
    _print_queue(asyncio.run(_act(order)), json_output=json_output)


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """An action from the options of a command: on the named queue, or on the queue of the run."""

    action: MergeActionKind
    queue: str | None = None
    run: str | None = None
    ahead_of: str | None = None
    reason: str = ""
    key: Path | None = None
    person: str = ""


async def _queues(wanted: str | None) -> tuple[MergeQueueView, ...]:
    """Return the merge queues that fit ``wanted``, a queue id or a branch; all of them without it."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return fitting(await client.merge_queues(), wanted)


async def _act(order: QueueOrder) -> MergeQueueView:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.session import attach_client

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        return await act_on_queue(client, place, order)


async def act_on_queue(client: Client, place: CommandContext, order: QueueOrder) -> MergeQueueView:
    """Apply an action, and return the queue. The server permits operators only.

    The action is signed if the queue requires it, or if the order names a key.

    Raises:
        ConfigurationError: the key cannot be used (``key_unreadable``).
        MalformedError, DeniedError, VerificationError: see ``Client.merge_act``.
    """
    from gatewright.app.cli.user_git import user_name

    queues = await client.merge_queues()
    run_id = queued_run(queues, order.run) if order.run is not None else None
    ahead = queued_run(queues, order.ahead_of) if order.ahead_of is not None else ""
    holding = tuple(each for each in queues if run_id in {entry.run_id for entry in each.entries})
    view = chosen_queue(holding if run_id is not None else fitting(queues, order.queue), order.queue)
    words: dict[str, Any] = {"run_id": run_id, "ahead_of": ahead, "reason": order.reason}
    person, signed = order.person or user_name(), None
    if view.signed_actions or order.key is not None:
        person, signed = await asyncio.to_thread(_signed_action, place, view, order, words)
    return await client.merge_act(order.action, queue_id=view.queue_id, **words, requested_by=person, signed=signed)


def _signed_action(
    place: CommandContext, view: MergeQueueView, order: QueueOrder, words: dict[str, Any]
) -> tuple[str, SignedDecision]:
    """Return the signer, and the action on this queue with the signature. Raises ConfigurationError (``key_unreadable``)."""
    from gatewright.clock import SystemClock, timestamp
    from gatewright.rules.merge_actions import ACTION_NAMESPACE, instruction_on

    person, key = signing_identity(place, order.person, order.key)
    now = timestamp(SystemClock().now())
    instruction = instruction_on(view, order.action, person=person, signed_at=now, **words)
    return person, sign_document(instruction, key, ACTION_NAMESPACE)


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


def _print_queue(view: MergeQueueView, *, json_output: bool) -> None:
    from gatewright.view.merge_queue import summary_words

    if json_output:
        emit(_builtins(view))
    else:
        write_line(printable(f"{view.branch} of {view.repository}: {summary_words(view)}"))


def _builtins(document: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(document)
