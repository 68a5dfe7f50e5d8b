"""Ends tasks that no process could reject: frees their place in the queue and ends their run.

A role rejects a task on its last delivery. A task that kills its role even then, or whose role is killed for another reason
each time, stays in its queue undelivered, and its run would wait forever. The server reports such a task once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import EXHAUSTED_SUBJECT, TASK_ROLES
from gatewright.contracts import Error
from gatewright.errors import MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.queue.commands import read_run_id_of_test
from gatewright.reasons import family_of
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.protocol import TaskRef, ref_of
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from gatewright.services.gatekeeper.orchestrator import Orchestrator
    from gatewright.services.gatekeeper.queue.merge_queues import MergeQueues

#: Subject prefix of these reports.
EXHAUSTED = EXHAUSTED_SUBJECT.removesuffix(">")
CODE = "attempts_exhausted"
_TASKS = "TASKS"


class _Report(msgspec.Struct):
    """The fields used of ``io.nats.jetstream.advisory.v1.max_deliver``."""

    stream: str
    stream_seq: int
    deliveries: int


async def give_up(
    report: Message,
    bus: Bus,
    orchestrator: Orchestrator,
    log: Logger,
    metrics: Metrics,
    queues: MergeQueues | None = None,
) -> None:
    """Give up a task.

    1. End the run, or the part of a merge queue's test, with an Error in place of the role's answer.
    2. Keep the task for operators.
    3. Remove it from its queue.

    Every step may be repeated.

    Raises:
        UnavailableError: deliver the report again.
        MalformedError: the message is no report.
    """
    try:
        advisory = read_json(report.data, _Report)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not a report of the server: {error}", code="unexpected_document") from error
    task = await bus.stored(_TASKS, advisory.stream_seq) if advisory.stream == _TASKS else None
    if task is None:
        return  # a late answer or another gatekeeper settled it
    words = f"no answer after {advisory.deliveries} deliveries: the process with the task ended each time"
    ref = ref_of(task)
    log.error("task_given_up", code=CODE, subject=task.subject, cause=words, **(ref._asdict() if ref else {}))
    if ref is not None:
        await _end_run(task, ref, words, orchestrator, log, queues)  # 1
    await publish_dead_letter(bus, "gatekeeper", _TASKS, task, attempts=advisory.deliveries, code=CODE, reason=words)  # 2
    metrics.dead_letter(CODE)
    await bus.remove(_TASKS, advisory.stream_seq)  # 3


async def _end_run(
    task: Message, ref: TaskRef, words: str, orchestrator: Orchestrator, log: Logger, queues: MergeQueues | None
) -> None:
    tokens = task.subject.split(".")
    role = next((role for role in TASK_ROLES if role == tokens[2]), None)
    if role is None or role == "gatekeeper":
        return
    error = Error(code=CODE, message=words, run_id=ref.run_id, task_id=ref.task_id, role=role, family=family_of(CODE))
    if queues is not None and read_run_id_of_test(ref.run_id) is not None:
        await queues.take_answer(error)
        return
    try:
        await orchestrator.advance(ref.run_id, RoleReplied(role, error, f"exhausted:{task.sequence}"))
    except MalformedError as unreadable:
        log.warning("run_unreadable", run_id=ref.run_id, code=unreadable.reason, cause=unreadable.message)
