"""The merge queues as a publisher lists them and an operator changes them, through the client library."""

from __future__ import annotations

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import MERGE_ACT_SUBJECT
from gatewright.client import Client
from gatewright.contracts import MergeAction, MergeActionReply, MergeQueues, MergeQueuesRequest, codec
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.contracts.vocabulary import Document
from gatewright.view.merge_queue import queue_view
from tests.queue.world import World, entry

QUEUE_ID = "0123456789abcdef0123"


async def answer_with(bus: MemoryBus, subject: str, document: Document) -> list[bytes]:
    received: list[bytes] = []

    async def answer(message: Message) -> Reply:
        received.append(message.data)
        return Reply(codec.encode(document), codec.schema_of(document))

    await bus.serve("gw-gatekeeper", {subject: answer})
    return received


async def test_a_publisher_lists_merge_queues_on_its_own_subject(bus: MemoryBus) -> None:
    world = World(QueuePolicy())
    world.enqueue(entry("run-0001"))
    view = queue_view(QUEUE_ID, world.queue, {})
    received = await answer_with(bus, "gw.merge.acme", MergeQueues(queues=(view,)))
    assert await Client(bus, publisher="acme").merge_queues(branch="main") == (view,)
    assert codec.decode(received[0], MergeQueuesRequest) == MergeQueuesRequest(branch="main")


async def test_an_action_names_who_requests_it(bus: MemoryBus) -> None:
    view = queue_view(QUEUE_ID, World(QueuePolicy()).queue, {})
    received = await answer_with(bus, MERGE_ACT_SUBJECT, MergeActionReply(queue=view))
    client = Client(bus, requested_by="tests")
    assert await client.merge_act("hold", queue_id=QUEUE_ID, reason="freeze") == view
    await client.merge_act("move", run_id="run-0001", requested_by="ana")
    signed = SignedDecision(document="{}", signature="signature")
    await client.merge_act("resume", queue_id=QUEUE_ID, signed=signed)
    first, second, third = (codec.decode(each, MergeAction) for each in received)
    assert first == MergeAction(action="hold", requested_by="tests", queue_id=QUEUE_ID, reason="freeze")
    assert second == MergeAction(action="move", requested_by="ana", run_id="run-0001")
    assert third == MergeAction(action="resume", requested_by="tests", queue_id=QUEUE_ID, signed=signed)
