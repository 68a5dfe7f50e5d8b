"""Signed actions of operators on a merge queue: what a person signs, and whether it is that person's action. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gatewright.contracts import ApproverRoster, MergeAction, MergeInstruction, codec
from gatewright.contracts.merge_queue import MergeActionKind, MergeQueueView
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.errors import DeniedError
from gatewright.queue.state import Queue
from gatewright.rules.people.signers import named_signer
from gatewright.rules.people.signing_times import check_fresh
from gatewright.rules.quorum import names_person

#: Namespace of signatures (``ssh-keygen -Y sign -n``): the signature of a decision is no action.
ACTION_NAMESPACE: Final = "gatewright-merge-action-v1"


@dataclass(frozen=True, slots=True)
class ActionSigner:
    """Who acts: the name in the roster and the fingerprint of the key, or the claimed name without a key."""

    name: str
    fingerprint: str = ""


def instruction_on(
    view: MergeQueueView,
    action: MergeActionKind,
    *,
    person: str,
    signed_at: str,
    run_id: str | None = None,
    ahead_of: str = "",
    reason: str = "",
) -> MergeInstruction:
    """Return the next action on exactly this queue, for ``person`` to sign.

    Args:
        view: the queue as the gatekeeper reports it.
        action: what to do.
        person: the name in the roster.
        signed_at: the current time, RFC 3339.
        run_id: the run to take out or to move.
        ahead_of: the run that it is moved before; empty for the end.
        reason: for people.
    """
    return MergeInstruction(
        queue_id=view.queue_id,
        number=view.actions + 1,
        action=action,
        person=person,
        signed_at=signed_at,
        run_id=run_id,
        ahead_of=ahead_of,
        reason=reason,
    )


def claimed_signer(action: MergeAction, signers: Sequence[str]) -> ActionSigner:
    """Return who requests an unsigned action.

    Raises:
        DeniedError: ``merge_action_unsigned``, the policy names ``signers``.
    """
    if signers:
        words = f"cannot {action.action}: an action on this queue requires the signature of {', '.join(signers)}"
        raise DeniedError(words, code="merge_action_unsigned")
    return ActionSigner(action.requested_by)


def judge_action(
    action: MergeAction,
    signed: SignedDecision,
    queue_id: str,
    queue: Queue,
    signers: Sequence[str],
    roster: ApproverRoster,
    now: datetime,
) -> ActionSigner:
    """Judge whether a signed action is valid for ``queue`` at ``now``, and return its signer.

    1. The signed instruction is canonical, and signed by a valid key of the roster, of the person that it names.
    2. The policy names that person, directly or by group, if it names any.
    3. The instruction is this action on this queue.
    4. It was signed within the last minutes.
    5. It is the next action of the queue, so that each instruction applies once.

    Args:
        action: the action.
        signed: its signed instruction.
        queue_id: id of the queue that it fits.
        queue: the state of that queue.
        signers: people and ``@groups`` of the policy; empty: each person of the roster.
        roster: the roster in force.
        now: the current time.

    Raises:
        MalformedError: the instruction cannot be decoded.
        VerificationError: the signature does not verify (``signature_invalid``).
        DeniedError: has the code of the broken rule.
    """
    instruction = codec.decode(signed.document.encode(), MergeInstruction)
    person, key_print = named_signer(roster, signed, instruction, ACTION_NAMESPACE, instruction.person, now)  # 1
    if signers and not names_person(signers, person):  # 2
        raise DeniedError(f"{person.name} may not act on this queue: {', '.join(signers)}", code="approver_not_allowed")
    if instruction.queue_id != queue_id or _content(instruction) != _content(action):  # 3
        raise DeniedError("another action, or an action on another queue, was signed", code="merge_action_differs")
    check_fresh(instruction.signed_at, now)  # 4
    if why := queue.why_out_of_turn(instruction.number):  # 5
        raise DeniedError(f"cannot {action.action}: {why}", code="merge_action_outdated")
    return ActionSigner(person.name, key_print)


def _content(action: MergeAction | MergeInstruction) -> tuple[str, str | None, str, str]:
    return action.action, action.run_id, action.ahead_of, action.reason
