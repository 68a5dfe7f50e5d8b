"""A NATS server that holds the recorded runs, and a gatekeeper on it that answers with the examples of the schemas."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

from gatewright.bus import topology
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Message, Reply
from gatewright.resources import schema_directory
from gatewright.tasks.dead_letter import publish_dead_letter
from tests.client.conftest import write_run
from tests.evidence.recorded_runs import RecordedRun
from tests.unauthenticated_nats import OpenServer

#: By subject, the schema of the answer and which of its valid examples it is.
ANSWERS = {
    topology.APPROVALS_SUBJECT: ("approval_list.v1", "full"),
    topology.STATUS_SUBJECT: ("run_status.v1", "full"),
    topology.CONTEXT_SUBJECT: ("run_context.v1", "full"),
    topology.MERGE_SUBJECT: ("merge_queues.v1", "full"),
    topology.MERGE_ACT_SUBJECT: ("merge_action_reply.v1", "full"),
}


async def _answer(message: Message) -> Reply:
    schema, name = ANSWERS[message.subject]
    return Reply((schema_directory() / "examples" / schema / "valid" / f"{name}.json").read_bytes(), schema)


async def _fill(bus: JetStreamBus, runs: Iterable[RecordedRun]) -> None:
    for run in runs:
        await write_run(bus, run.transitions)
        for data in run.store.blobs.values():
            await bus.put_artifact(data)
    queue = topology.task_consumer("worker")
    message = Message(queue.subject, b'{"task": 1}\xff', {"Gw-Schema": "task_contract.v1", "Nats-Msg-Id": "task-1"}, 1)
    await publish_dead_letter(bus, "worker", "TASKS", message, attempts=3, code="denied", reason="no \x1b[31mway")


@contextlib.contextmanager
def recorded_bus(folder: Path, runs: Iterable[RecordedRun]) -> Iterator[str]:
    """The address of the server, as long as it serves."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def begin() -> tuple[OpenServer, JetStreamBus]:
        server = await OpenServer.open(folder)
        await ensure_topology(server.url)
        bus = await JetStreamBus.connect(server.url, name="gatekeeper")
        await _fill(bus, runs)
        await bus.serve("gw-gatekeeper", dict.fromkeys(ANSWERS, _answer))
        return server, bus

    server, bus = do(begin())
    try:
        yield server.url
    finally:
        do(bus.close())
        do(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
