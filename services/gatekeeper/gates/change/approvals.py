"""Changes of the pipeline that a person has approved with a key: exactly those contents, in that repository, not yet ended.

The approval comes with the run, as its input artifact ``approval``. What is not approved is put among the evidence in the form
in which it can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gatewright.contracts import TaskContract
from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.evidence.approvals import APPROVAL, has_expired, open_approval
from gatewright.evidence.signing.keys import PublicKey
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.approved import NOTHING, Approved
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext


async def read_approval(
    context: GateContext, contract: TaskContract, repository: str, approvers: Callable[[], Sequence[PublicKey]]
) -> Approved:
    """What the run's approval lets through. Raises ArtifactError, ConfigurationError for keys that cannot be read.

    1. there is one  2. a key that may approve has signed it  3. it is about this repository  4. it has not ended.
    """
    given = [artifact for artifact in contract.inputs.artifacts if artifact.name == APPROVAL]
    if not given:  # 1
        return NOTHING
    context.report.saw(APPROVAL, given[0].sha256)
    data = await context.artifacts.get_artifact(given[0].uri)
    try:
        approval, key = open_approval(data, await asyncio.to_thread(approvers))  # 2
    except (MalformedError, VerificationError) as error:
        return _nothing(error)
    if approval.repository != repository:  # 3
        return Approved(words="the approval that was given is about another repository")
    who = f"approved by {approval.approved_by} with key {key.key_id[:16]} until {approval.expires_at}: {approval.reason}"
    if has_expired(approval, context.now):  # 4
        return Approved(words=f"the approval that was given has ended ({approval.expires_at})")
    return Approved(frozenset(approval.changes), who)


async def judge_opened(context: ChangeContext, run: Run) -> None:
    """Whether what an approval let through is still let through as the change lands: its key is there, and it has not ended.

    Of a run without one nothing is judged here again. Raises GitError.
    """
    candidate = run.candidate
    if candidate is None or not any(each.name == APPROVAL for each in context.contract.inputs.artifacts):
        return
    for change in await context.mirror.changes(run.accepted.baseline_tree, candidate.tree):
        for kind in context.policies.path_classes(change.path):
            if kind.opened_by == "approval":
                context.approved.judge(change, f"protected_paths.{kind.name}", context.report)


def _nothing(error: GatewrightError) -> Approved:
    return Approved(words=f"the approval that was given counts for nothing ({error.reason}): {error.message}")
