"""Signed actions on a merge queue: whose signature the gatekeeper accepts, and for which action."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.clock import timestamp
from gatewright.contracts import Error, MergeAction, MergeInstruction, codec
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.queue_policy import QueuePolicy
from gatewright.errors import ConfigurationError
from gatewright.queue import events as e
from gatewright.rules.approvals import NAMESPACE
from gatewright.rules.merge_actions import ACTION_NAMESPACE, instruction_on
from gatewright.rules.people.signing_times import CLOCK_TOLERANCE
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.policies.approval_policy import ApprovalPolicy
from gatewright.services.gatekeeper.policies.load import Policies, load
from gatewright.ssh_signatures import public_line, sign_ssh
from tests.attacks.people import KEYS, policies_with, roster
from tests.gatekeeper.contexts import delivered_policies
from tests.gatekeeper.intake.merge_asking import OTHER_ID, QUEUE_ID, Asking, open_asking

SIGNERS = QueuePolicy(action_signers=("ana", "@release"))


def people(*names: str) -> dict[str, object]:
    """The roster with Ana, Ben of the group release, and Eve, whom no policy names; only ``names`` of them."""
    listed = roster()["people"]
    assert isinstance(listed, list)
    eve = {"name": "eve", "keys": [{"key": public_line(KEYS["eve"])}]}
    return {"version": "1", "people": [each for each in (*listed, eve) if each["name"] in names]}


@pytest.fixture
def roster_file(tmp_path: Path) -> Path:
    path = tmp_path / "approvers.json"
    path.write_text(json.dumps(people("ana", "ben", "eve")))
    return path


@pytest.fixture
def policies(roster_file: Path) -> Policies:
    return dataclasses.replace(delivered_policies(), people=ApprovalPolicy(roster_file=roster_file))


@pytest.fixture
async def asking(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[Asking]:
    async with open_asking(bus, gates, tmp_path, SIGNERS) as opened:
        yield opened


def sign(instruction: MergeInstruction, key: str, namespace: str = ACTION_NAMESPACE) -> SignedDecision:
    data = codec.encode(instruction)
    return SignedDecision(document=data.decode(), signature=sign_ssh(KEYS[key], namespace, data))


async def instruction(asking: Asking, action: MergeActionKind = "hold", person: str = "ana", **words: str) -> MergeInstruction:
    """What a person signs now about the first queue as it is now."""
    view = next(each for each in await asking.list_queues() if each.queue_id == QUEUE_ID)
    return instruction_on(view, action, person=person, signed_at=time_of(asking, timedelta()), **words)


def time_of(asking: Asking, ago: timedelta) -> str:
    """The time so long before the gatekeeper's."""
    return timestamp(asking.service.orchestrator.clock.now() - ago)


def action_of(signed: SignedDecision) -> MergeAction:
    """The action that a signed instruction is sent with."""
    content = codec.decode(signed.document.encode(), MergeInstruction)
    return MergeAction(
        action=content.action,
        requested_by="claimed",
        queue_id=content.queue_id,
        run_id=content.run_id,
        ahead_of=content.ahead_of,
        reason=content.reason,
        signed=signed,
    )


async def refused(asking: Asking, action: MergeAction) -> str:
    """The code of the refusal; the queue is as it was."""
    before = asking.world.queue
    answer = await asking.send(action)
    assert isinstance(answer, Error)
    assert asking.world.queue == before
    return answer.code


async def test_a_signed_action_is_applied_and_kept_with_its_signature(asking: Asking) -> None:
    signed = sign(await instruction(asking, reason="release freeze"), "ana")
    view = await asking.send(action_of(signed))
    assert isinstance(view, MergeQueueView)
    assert view.signed_actions
    assert view.actions == 1
    assert view.held is not None
    assert (view.held.by, view.held.detail) == ("ana", "release freeze")
    event = asking.world.history[-1]
    assert isinstance(event, e.QueueHeld)
    assert event.signed == signed


async def test_a_member_of_a_named_group_may_act(asking: Asking) -> None:
    actions: tuple[tuple[MergeActionKind, dict[str, str]], ...] = (
        ("move", {"run_id": "run-0003", "ahead_of": "run-0001"}),
        ("dequeue", {"run_id": "run-0002"}),
        ("hold", {}),
        ("resume", {}),
    )
    for number, (action, words) in enumerate(actions, 1):
        view = await asking.send(action_of(sign(await instruction(asking, action, "ben", **words), "ben")))
        assert isinstance(view, MergeQueueView)
        assert view.actions == number
    acted = [each for each in asking.world.history if getattr(each, "signed", None) is not None]
    assert [each.event_type for each in acted] == ["entry_moved", "entry_left", "queue_held", "queue_resumed"]
    assert {getattr(each, "by", "") for each in acted} == {"ben"}


async def test_an_unsigned_action_is_refused_and_names_the_signers(asking: Asking) -> None:
    answer = await asking.act("hold", queue_id=QUEUE_ID)
    assert isinstance(answer, Error)
    assert answer.code == "merge_action_unsigned"
    assert answer.message == "cannot hold: an action on this queue requires the signature of ana, @release"


async def test_a_person_whom_the_policy_does_not_name_is_refused(asking: Asking) -> None:
    assert await refused(asking, action_of(sign(await instruction(asking, person="eve"), "eve"))) == "approver_not_allowed"


async def test_a_signature_under_the_name_of_another_person_is_refused(asking: Asking) -> None:
    assert await refused(asking, action_of(sign(await instruction(asking, person="ana"), "eve"))) == "approver_differs"


async def test_a_revoked_key_signs_no_action(asking: Asking) -> None:
    assert await refused(asking, action_of(sign(await instruction(asking), "old"))) == "approver_key_revoked"


async def test_a_person_removed_from_the_roster_is_refused_at_once(asking: Asking, roster_file: Path) -> None:
    signed = sign(await instruction(asking), "ana")
    roster_file.write_text(json.dumps(people("ben")))
    assert await refused(asking, action_of(signed)) == "approver_unknown"


async def test_an_unreadable_roster_permits_no_signed_action(asking: Asking, roster_file: Path) -> None:
    signed = sign(await instruction(asking), "ana")
    roster_file.write_text("{")
    assert await refused(asking, action_of(signed)) == "approvers_unusable"


async def test_an_altered_instruction_is_refused(asking: Asking) -> None:
    honest = await instruction(asking, "dequeue", run_id="run-0002")
    signed = sign(honest, "ana")
    altered = codec.encode(replace(honest, run_id="run-0001")).decode()
    assert await refused(asking, action_of(replace(signed, document=altered))) == "signature_invalid"
    assert await refused(asking, replace(action_of(signed), signed=replace(signed, document=signed.document + " "))) == (
        "approval_not_canonical"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "run-0003"},
        {"ahead_of": ""},
        {"reason": "another reason"},
        {"action": "dequeue"},
    ],
)
async def test_another_action_than_the_signed_one_is_refused(asking: Asking, changes: dict[str, str]) -> None:
    words = {"run_id": "run-0002", "ahead_of": "run-0001", "reason": "a fix"}
    action = action_of(sign(await instruction(asking, "move", **words), "ana"))
    assert await refused(asking, replace(action, **changes)) == "merge_action_differs"


async def test_a_signature_for_another_queue_is_refused(asking: Asking) -> None:
    action = action_of(sign(await instruction(asking), "ana"))
    assert await refused(asking, replace(action, queue_id=OTHER_ID)) == "merge_action_differs"
    assert asking.queues.worlds[OTHER_ID].queue.held is None


async def test_a_signature_for_another_purpose_is_refused(asking: Asking) -> None:
    assert await refused(asking, action_of(sign(await instruction(asking), "ana", NAMESPACE))) == "signature_invalid"


async def test_a_replayed_action_is_refused(asking: Asking) -> None:
    hold = action_of(sign(await instruction(asking), "ana"))
    assert isinstance(await asking.send(hold), MergeQueueView)
    assert isinstance(await asking.send(action_of(sign(await instruction(asking, "resume"), "ana"))), MergeQueueView)
    assert await refused(asking, hold) == "merge_action_outdated"


async def test_a_replay_that_races_with_the_first_copy_changes_nothing(asking: Asking) -> None:
    signed = sign(await instruction(asking, "move", run_id="run-0003"), "ana")
    event = e.EntryMoved(run_id="run-0003", ahead_of="", by="ana", signed=signed)
    assert asking.world.deliver(event)
    assert asking.world.deliver(event) == ()


async def test_of_two_actions_on_one_state_the_second_is_signed_again(asking: Asking) -> None:
    first, second = [sign(await instruction(asking, "move", who, run_id="run-0003"), who) for who in ("ana", "ben")]
    assert isinstance(await asking.send(action_of(first)), MergeQueueView)
    assert await refused(asking, action_of(second)) == "merge_action_outdated"


@pytest.mark.parametrize("ago", [2 * CLOCK_TOLERANCE, -2 * CLOCK_TOLERANCE])
async def test_an_action_signed_long_ago_or_in_the_future_is_refused(asking: Asking, ago: timedelta) -> None:
    late = replace(await instruction(asking), signed_at=time_of(asking, ago))
    assert await refused(asking, action_of(sign(late, "ana"))) == "signing_time_wrong"


async def test_a_policy_without_signers_takes_unsigned_and_checks_signed_actions(asking: Asking) -> None:
    asking.world.policy = QueuePolicy()
    signed = sign(await instruction(asking), "ana")
    forged = replace(signed, document=signed.document.replace('"hold"', '"resume"'))
    assert await refused(asking, replace(action_of(forged), action="resume")) == "signature_invalid"
    view = await asking.act("hold", queue_id=QUEUE_ID)
    assert isinstance(view, MergeQueueView)
    assert not view.signed_actions
    resumed = await asking.send(action_of(sign(await instruction(asking, "resume", "eve"), "eve")))
    assert isinstance(resumed, MergeQueueView)
    assert getattr(asking.world.history[-1], "by", "") == "eve"


def test_a_policy_that_names_an_unknown_signer_is_refused(tmp_path: Path) -> None:
    folder = policies_with(tmp_path / "policies")
    queue = {"repositories": ["*"], "branches": ["refs/heads/main"], "policy": {"action_signers": ["ana", "@nowhere"]}}
    (folder / "queues.json").write_text(json.dumps({"version": "1", "queues": [queue]}))
    with pytest.raises(ConfigurationError, match="action_signers names @nowhere"):
        load(folder)
