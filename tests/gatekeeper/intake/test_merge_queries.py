"""Who sees which merge queue and which runs in it, and what an operator's action does to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.identities import STANDING
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.permissions import access_of, publisher_subjects
from gatewright.bus.topology import MERGE_ACT_SUBJECT
from gatewright.contracts import Error, MergeQueues, RunRequest, SubmitReply, codec
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.gatekeeper.intake.merge_asking import OTHER_ID, QUEUE_ID, Asking, open_asking
from tests.queue.world import entry
from tests.waiting import PATIENCE


@pytest.fixture
async def asking(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[Asking]:
    async with open_asking(bus, gates, tmp_path, QueuePolicy()) as opened:
        yield opened


async def test_a_publisher_that_may_see_any_run_sees_each_queue_whole(asking: Asking) -> None:
    empty, full = sorted(await asking.list_queues(), key=lambda view: view.length)
    assert (empty.queue_id, empty.length) == (OTHER_ID, 0)
    assert [each.run_id for each in full.entries] == ["run-0001", "run-0002", "run-0003"]


async def test_a_publisher_sees_runs_of_others_only_as_a_count(asking: Asking) -> None:
    (view,) = await asking.list_queues("acme")
    assert [(each.place, each.run_id) for each in view.entries] == [(1, "run-0001"), (3, "run-0003")]
    assert view.length == 3
    assert b"run-0002" not in codec.encode(MergeQueues(queues=(view,)))


async def test_a_publisher_without_queued_runs_cannot_see_the_queue(asking: Asking) -> None:
    assert await asking.list_queues("idle") == ()
    assert await asking.list_queues("idle", queue_id=QUEUE_ID) == ()


async def test_an_ended_run_is_visible_to_its_publisher_only(asking: Asking, request_for: RunRequest) -> None:
    answer = await asking.intake.submit(request_for, "beta")
    assert isinstance(answer, SubmitReply)
    async with asyncio.timeout(PATIENCE):
        while asking.service.index.known(answer.run_id) is None:  # noqa: ASYNC110 - there is nothing that would report it
            await asyncio.sleep(0)
    world = asking.queues.worlds[OTHER_ID]
    world.enqueue(entry(answer.run_id, publisher="beta"))
    titled = {view.queue_id: view for view in await asking.list_queues("beta")}[OTHER_ID].entries[0]
    assert titled.title == " ".join(request_for.request.split())
    world.run()
    assert {view.queue_id: view for view in await asking.list_queues("beta")}[OTHER_ID].endings[0].outcome == "landed"
    assert OTHER_ID not in {view.queue_id for view in await asking.list_queues("acme")}


async def test_a_list_is_limited_to_the_named_queue_or_branch(asking: Asking) -> None:
    assert [view.queue_id for view in await asking.list_queues(queue_id=OTHER_ID)] == [OTHER_ID]
    assert await asking.list_queues(branch="release") == ()
    assert len(await asking.list_queues(repository="repository", branch="main")) == 2


async def test_a_held_queue_is_resumed_by_an_operator(asking: Asking) -> None:
    held = await asking.act("hold", queue_id=QUEUE_ID, reason="release freeze")
    assert isinstance(held, MergeQueueView)
    assert held.held is not None
    assert (held.held.reason, held.held.detail, held.held.by) == ("by_person", "release freeze", "ana")
    again = await asking.act("hold", queue_id=QUEUE_ID)
    assert isinstance(again, Error)
    assert (again.code, again.message) == ("merge_not_possible", "cannot hold: the queue is held already")
    resumed = await asking.act("resume", queue_id=QUEUE_ID)
    assert isinstance(resumed, MergeQueueView)
    assert resumed.held is None


async def test_a_run_is_removed_or_moved_in_its_own_queue(asking: Asking) -> None:
    moved = await asking.act("move", run_id="run-0003", ahead_of="run-0001")
    assert isinstance(moved, MergeQueueView)
    assert [each.run_id for each in moved.entries] == ["run-0003", "run-0001", "run-0002"]
    to_the_end = await asking.act("move", run_id="run-0003")
    assert isinstance(to_the_end, MergeQueueView)
    assert [each.run_id for each in to_the_end.entries] == ["run-0001", "run-0002", "run-0003"]
    left = await asking.act("dequeue", run_id="run-0002")
    assert isinstance(left, MergeQueueView)
    assert [(each.run_id, each.outcome) for each in left.endings] == [("run-0002", "aborted")]


@pytest.mark.parametrize(
    ("action", "named", "code"),
    [
        ("hold", {}, "merge_queue_unknown"),
        ("hold", {"queue_id": "0" * 20}, "merge_queue_unknown"),
        ("resume", {"queue_id": QUEUE_ID}, "merge_not_possible"),
        ("dequeue", {"queue_id": QUEUE_ID}, "merge_entry_unknown"),
        ("dequeue", {"run_id": "run-0009"}, "merge_entry_unknown"),
        ("dequeue", {"run_id": "run-0001", "queue_id": OTHER_ID}, "merge_entry_unknown"),
        ("move", {"run_id": "run-0001", "ahead_of": "run-0009"}, "merge_entry_unknown"),
        ("move", {"run_id": "run-0001", "ahead_of": "run-0001"}, "merge_not_possible"),
        ("hold", {"queue_id": QUEUE_ID, "reason": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"}, "secret_found"),
    ],
)
async def test_an_impossible_action_is_refused_with_its_code(
    asking: Asking, action: MergeActionKind, named: dict[str, str], code: str
) -> None:
    before = asking.world.queue
    refused = await asking.act(action, **named)
    assert isinstance(refused, Error)
    assert refused.code == code
    assert asking.world.queue == before


async def test_a_landing_run_is_neither_taken_out_nor_moved(asking: Asking) -> None:
    world = asking.world
    while not world.queue.landing:
        world.deliver(world.carry_out(world.due()[0]))
    for action in ("dequeue", "move"):
        refused = await asking.act(action, run_id="run-0001")
        assert isinstance(refused, Error)
        assert refused.code == "merge_not_possible"


async def test_an_action_that_another_gatekeeper_outran_is_reported(asking: Asking) -> None:
    asking.queues.outrun = True
    refused = await asking.act("hold", queue_id=QUEUE_ID)
    assert isinstance(refused, Error)
    assert refused.code == "merge_not_possible"


def test_only_operators_may_send_actions_also_beside_a_publisher_of_that_name() -> None:
    senders = {name for name in STANDING if MERGE_ACT_SUBJECT in access_of(name).publish}
    assert senders == {"operator"}
    for name in ("act", "merge-act", "default", "operator"):
        assert MERGE_ACT_SUBJECT not in publisher_subjects(name).values()
