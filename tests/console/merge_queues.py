"""A gatekeeper on the console's bus that answers with merge queues of the model."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import MERGE_SUBJECT
from gatewright.contracts import MergeQueues, codec
from gatewright.contracts.merge_queue import MergeQueueView
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.contracts.vocabulary import Document
from gatewright.queue import events as e
from gatewright.queue.commands import Compose
from gatewright.view.merge_queue import limited_view, queue_view
from tests.console.conftest import ServedConsole
from tests.queue.world import Truth, World, entry, write


def full_queue(title: str) -> MergeQueueView:
    """A queue with two positions under test, waiting runs, a run of another publisher, and one that left."""
    world = World(QueuePolicy(window=Window(start=4)), Truth(bad=frozenset({"run-0000"})), files={"src/a.py": "0"})
    world.enqueue(entry("run-0000"))
    world.run()
    world.enqueue(
        entry("run-0001", write("src/a.py", "1", "0"), publisher="acme"),
        entry("run-0002", write("src/a.py", "2", "1"), publisher="other"),
        entry("run-0003", write("src/a.py", "3", "2"), publisher="acme", requeues=1),
        entry("run-0004", write("src/b.py", "4"), publisher="acme"),
    )
    while composing := [each for each in world.due() if isinstance(each, Compose)]:
        world.deliver(world.carry_out(composing[0]))
    view = queue_view("0123456789abcdef0123", world.queue, {"run-0001": title, "run-0004": "Add a table of prices"})
    return replace(limited_view(view, {"run-0000", "run-0001", "run-0003", "run-0004"}), repository="/srv/project")


def held_queue() -> MergeQueueView:
    """An empty queue that an operator holds."""
    world = World(QueuePolicy())
    world.deliver(e.QueueHeld(reason="by_person", detail="release freeze", by="ana"))
    view = queue_view("fedcba98765432100000", world.queue, {})
    return replace(view, branch="release", repository="/srv/project")


def serve_queues(console: ServedConsole, queues: Sequence[MergeQueueView]) -> None:
    """Answer the console's requests with ``queues``."""
    serve_document(console, MERGE_SUBJECT, MergeQueues(queues=tuple(queues)))


def serve_document(console: ServedConsole, subject: str, document: Document) -> None:
    """Answer the console's requests on ``subject`` with ``document``."""

    async def answer(_message: Message) -> Reply:
        return Reply(codec.encode(document), codec.schema_of(document))

    async def serve() -> None:
        await MemoryBus(console.system).serve("gw-gatekeeper", {subject: answer})

    console.do(serve())
