"""``merge``: which queue and which run a command means, and what a queued run waits for."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.merge import QueueOrder, act_on_queue, chosen_queue, fitting, queue_lines, queued_run
from gatewright.app.cli.people.signing import public_key
from gatewright.app.cli.runs.waits import WaitFinder
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import Message, Reply
from gatewright.bus.topology import MERGE_ACT_SUBJECT
from gatewright.client.client import Client
from gatewright.contracts import ApproverRoster, MergeAction, MergeActionReply, MergeQueues, codec
from gatewright.contracts.merge_queue import MergeHold, MergeQueueView
from gatewright.contracts.people.approvals import RosterKey, RosterPerson
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.evidence.signing import keys
from gatewright.rules.merge_actions import judge_action
from gatewright.run.state import Run
from gatewright.view.merge_queue import queue_view
from gatewright.view.run_view import RunView
from tests.cli.test_waits import at_work, view_after
from tests.gatekeeper.simulated_run import RUN_ID
from tests.queue.world import World, entry

MAIN, RELEASE = "0123456789abcdef0123", "fedcba98765432100000"


def queue(queue_id: str, branch: str, *run_ids: str) -> MergeQueueView:
    world = World(QueuePolicy())
    world.enqueue(*map(entry, run_ids))
    return replace(queue_view(queue_id, world.queue, {}), branch=branch)


QUEUES = (queue(MAIN, "main", "run-0001", RUN_ID), queue(RELEASE, "release", "run-0100"))


@pytest.mark.parametrize("name", [MAIN, "0123", "main", "refs/heads/main"])
def test_a_queue_is_named_by_its_id_or_branch(name: str) -> None:
    assert chosen_queue(fitting(QUEUES, name), name).queue_id == MAIN


@pytest.mark.parametrize(("name", "words"), [(None, "2 merge queues fit"), ("develop", "there is no merge queue 'develop'")])
def test_an_unclear_queue_is_refused(name: str | None, words: str) -> None:
    with pytest.raises(MalformedError, match=words) as refused:
        chosen_queue(fitting(QUEUES, name), name)
    assert refused.value.reason == "merge_queue_unknown"


def test_a_queued_run_is_named_by_its_beginning() -> None:
    assert queued_run(QUEUES, "run-01") == "run-0100"
    assert queued_run(QUEUES, "run-0001") == "run-0001"
    for wanted in ("run-0", "run-9"):
        with pytest.raises(MalformedError) as refused:
            queued_run(QUEUES, wanted)
        assert refused.value.reason == "merge_entry_unknown"


def test_the_list_fits_eighty_columns_and_marks_a_hold() -> None:
    held = replace(QUEUES[0], repository="/srv/" + "x" * 100, held=MergeHold(reason="by_person", by="ana"))
    lines = queue_lines((held, QUEUES[1]))
    assert all(len(line) <= 80 for line in lines)
    assert lines[2] == "  held by ana"
    assert queue_lines(()) == ["No merge queue. A run with the landing mode `queue` creates the queue of its branch."]


def queued_view() -> RunView:
    view = view_after(at_work())
    run: Run = replace(view.run, state="QUEUED")
    return replace_fields(view, run=run)


async def test_a_queued_run_waits_for_its_place_in_the_merge_queue() -> None:
    async def ask() -> tuple[MergeQueueView, ...]:
        return QUEUES

    finder = WaitFinder(MemoryBus(MemoryServer()), None, ask)
    (wait,) = await finder.waits_of(queued_view())
    assert wait.kind == "merge_queue"
    assert wait.detail == (f"to land on main: 2nd of 2, behind run-0001; position 2: composing; `gatewright merge show {MAIN}`")
    assert await finder.waits_of(view_after(at_work())) == ()


async def test_a_queued_run_is_shown_where_no_gatekeeper_answers() -> None:
    bus = MemoryBus(MemoryServer())
    for ask in (Client(bus).merge_queues, None):
        (wait,) = await WaitFinder(bus, None, ask).waits_of(queued_view())
        assert wait.detail == "to land: it is in the merge queue; its place is not known now"


async def serve(bus: MemoryBus, view: MergeQueueView) -> list[bytes]:
    """Answer with ``view`` to lists and to actions; the received actions."""
    received: list[bytes] = []

    async def list_queues(_message: Message) -> Reply:
        return Reply(codec.encode(MergeQueues(queues=(view,))), "merge_queues.v1")

    async def act(message: Message) -> Reply:
        received.append(message.data)
        return Reply(codec.encode(MergeActionReply(queue=view)), "merge_action_reply.v1")

    await bus.serve("gw-gatekeeper", {publisher_subjects("default")["merge"]: list_queues, MERGE_ACT_SUBJECT: act})
    return received


@pytest.mark.parametrize("required", [True, False])
async def test_actions_are_signed_on_demand_or_with_a_named_key(tmp_path: Path, required: bool) -> None:
    bus, key = MemoryBus(MemoryServer()), tmp_path / "key.pem"
    keys.create(key)
    received = await serve(bus, replace(QUEUES[0], signed_actions=required, actions=4))
    place = CommandContext(tmp_path, tmp_path / "home", None, tmp_path / "home.pem")
    await act_on_queue(Client(bus), place, QueueOrder("dequeue", run="run-0001", reason="broken", key=key, person="ana"))
    action = codec.decode(received[0], MergeAction)
    assert (action.requested_by, action.run_id, action.reason) == ("ana", "run-0001", "broken")
    assert action.signed is not None
    roster = ApproverRoster(version="1", people=(RosterPerson(name="ana", keys=(RosterKey(key=public_key(key)),)),))
    queue = replace(World(QueuePolicy()).queue, actions=4)
    assert judge_action(action, action.signed, MAIN, queue, ("ana",), roster, datetime.now(UTC)).name == "ana"


async def test_an_action_on_a_queue_without_signers_is_not_signed(tmp_path: Path) -> None:
    bus = MemoryBus(MemoryServer())
    received = await serve(bus, QUEUES[0])
    place = CommandContext(tmp_path, tmp_path / "home", None, tmp_path / "home.pem")
    await act_on_queue(Client(bus), place, QueueOrder("hold", "main", person="ana"))
    assert codec.decode(received[0], MergeAction) == MergeAction(action="hold", requested_by="ana", queue_id=MAIN)


async def test_a_required_signature_without_a_key_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    bus = MemoryBus(MemoryServer())
    received = await serve(bus, replace(QUEUES[0], signed_actions=True))
    place = CommandContext(tmp_path, tmp_path / "home", None, tmp_path / "home.pem")
    with pytest.raises(ConfigurationError, match="no key was named") as refused:
        await act_on_queue(Client(bus), place, QueueOrder("hold", "main", person="ana"))
    assert refused.value.reason == "key_unreadable"
    assert received == []
