"""Merge queues of the model behind the gatekeeper's endpoints: what publishers list, and what operators do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import Message
from gatewright.bus.topology import MERGE_ACT_SUBJECT, MERGE_SUBJECT
from gatewright.contracts import Error, MergeAction, MergeActionReply, MergeQueues, MergeQueuesRequest, codec
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.queue.inputs import Input
from gatewright.queue.state import Queue
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.merge_queries import MergeQueueService
from gatewright.telemetry.logs import make_logger
from tests.attacks.real_gate import default_scanner
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake
from tests.queue.world import World, entry, write

QUEUE_ID, OTHER_ID = "0123456789abcdef0123", "fedcba98765432100000"


@dataclass
class WorldQueues:
    """The queues of the model. ``outrun``: ignore every input, as if another gatekeeper had been faster."""

    worlds: dict[str, World] = field(default_factory=dict)
    outrun: bool = False

    async def known(self) -> Mapping[str, Queue]:
        return {queue_id: world.queue for queue_id, world in self.worlds.items()}

    def policy_of(self, queue: Queue) -> QueuePolicy:
        return next(world.policy for world in self.worlds.values() if world.queue is queue)

    async def apply(self, queue_id: str, item: Input) -> bool:
        return not self.outrun and bool(self.worlds[queue_id].deliver(item))


@dataclass
class Asking:
    intake: IntakeFixture
    queues: WorldQueues
    service: MergeQueueService

    @property
    def world(self) -> World:
        return self.queues.worlds[QUEUE_ID]

    async def list_queues(self, publisher: str = "default", **named: str) -> tuple[MergeQueueView, ...]:
        subject = publisher_subjects(publisher)["merge"]
        reply = await self.service.questions()[MERGE_SUBJECT](Message(subject, codec.encode(MergeQueuesRequest(**named))))
        return codec.decode(reply.data, MergeQueues).queues

    async def act(self, action: MergeActionKind, **named: Any) -> MergeQueueView | Error:
        return await self.send(MergeAction(action=action, requested_by="ana", **named))

    async def send(self, action: MergeAction) -> MergeQueueView | Error:
        reply = await self.service.actions()[MERGE_ACT_SUBJECT](Message(MERGE_ACT_SUBJECT, codec.encode(action)))
        if reply.schema == "error.v1":
            return codec.decode(reply.data, Error)
        return codec.decode(reply.data, MergeActionReply).queue


@asynccontextmanager
async def open_asking(bus: MemoryBus, gates: GateEngine, folder: Path, policy: QueuePolicy) -> AsyncIterator[Asking]:
    """Two queues with this policy; the first one has three runs that write one file after the other."""
    rules = (make_publisher("default", may_see="any"), make_publisher("acme"), make_publisher("beta"), make_publisher("idle"))
    intake = open_intake(bus, gates, folder, *rules)
    questions = intake.questions
    world, other = World(policy, files={"src/a.py": "0"}), World(policy)
    world.enqueue(
        entry("run-0001", write("src/a.py", "1", "0"), publisher="acme"),
        entry("run-0002", write("src/a.py", "2", "1"), publisher="beta"),
        entry("run-0003", write("src/a.py", "3", "2"), publisher="acme"),
    )
    queues = WorldQueues({QUEUE_ID: world, OTHER_ID: other})
    service = MergeQueueService(
        queues, questions.orchestrator, questions.limits, questions.index, make_logger(), default_scanner()
    )
    yield Asking(intake, queues, service)
    for task in intake.following:
        task.cancel()
    await asyncio.gather(*intake.following, return_exceptions=True)
