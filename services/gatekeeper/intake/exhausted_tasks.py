"""Ends what a task that no process could refuse would leave open: its place in the queue, and its run.

A role refuses a task on its last delivery. One that kills its role even then, or whose role is killed for another reason every
time, stays in its queue, is delivered no more, and its run would wait for ever. The server reports that once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import EXHAUSTED_SUBJECT, TASK_ROLES
from gatewright.contracts import Error
from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.reasons import family_of
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.protocol import TaskRef, ref_of
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from gatewright.services.gatekeeper.orchestrator import Orchestrator

#: What the subjects of such reports begin with.
EXHAUSTED = EXHAUSTED_SUBJECT.removesuffix(">")
CODE = "attempts_exhausted"
_TASKS = "TASKS"


class _Report(msgspec.Struct):
    """``io.nats.jetstream.advisory.v1.max_deliver``, as far as it counts here."""

    stream: str
    stream_seq: int
    deliveries: int


async def give_up(report: Message, bus: Bus, orchestrator: Orchestrator, log: Logger, metrics: Metrics) -> None:
    """1. End the run with an Error in the role's place. 2. Keep the task for operators. 3. Take it off its queue.

    Every step may be repeated. Raises UnavailableError: bring the report again; MalformedError for what is no report.
    """
    try:
        told = read_json(report.data, _Report)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not a report of the server: {error}", code="unexpected_document") from error
    task = await bus.stored(_TASKS, told.stream_seq) if told.stream == _TASKS else None
    if task is None:
        return  # a late answer settled it, or another gatekeeper was quicker
    words = f"no answer after {told.deliveries} deliveries: each time, the process that had the task was gone"
    ref = ref_of(task)
    log.error("task_given_up", code=CODE, subject=task.subject, cause=words, **(ref._asdict() if ref else {}))
    if ref is not None:
        await _end_run(task, ref, words, orchestrator, log)  # 1
    await publish_dead_letter(bus, "gatekeeper", _TASKS, task, attempts=told.deliveries, code=CODE, reason=words)  # 2
    metrics.dead_letter(CODE)
    await bus.remove(_TASKS, told.stream_seq)  # 3


async def _end_run(task: Message, ref: TaskRef, words: str, orchestrator: Orchestrator, log: Logger) -> None:
    tokens = task.subject.split(".")
    role = next((role for role in TASK_ROLES if role == tokens[2]), None)
    if role is None or role == "gatekeeper":
        return
    error = Error(code=CODE, message=words, run_id=ref.run_id, task_id=ref.task_id, role=role, family=family_of(CODE))
    try:
        await orchestrator.advance(ref.run_id, RoleReplied(role, error, f"exhausted:{task.sequence}"))
    except MalformedError as unreadable:
        log.warning("run_unreadable", run_id=ref.run_id, code=unreadable.reason, cause=unreadable.message)
