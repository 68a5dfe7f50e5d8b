"""Changes of the pipeline that a person has approved with a key: exactly those contents, in that repository, not yet ended.

The approval comes with the run, as its input artifact ``approval``. What is not approved is put among the evidence in the form
in which it can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import TaskContract
from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.evidence.approvals import APPROVAL, has_expired, opened
from gatewright.evidence.signing.keys import PublicKey
from gatewright.services.gatekeeper.gates.approved import NOTHING, Approved
from gatewright.services.gatekeeper.gates.context import GateContext


async def read_approval(
    context: GateContext, contract: TaskContract, repository: str, approvers: Sequence[PublicKey]
) -> Approved:
    """What the run's approval lets through. Raises ArtifactError.

    1. there is one  2. a key that may approve has signed it  3. it is about this repository  4. it has not ended.
    """
    given = [artifact for artifact in contract.inputs.artifacts if artifact.name == APPROVAL]
    if not given:  # 1
        return NOTHING
    context.report.saw(APPROVAL, given[0].sha256)
    data = await context.artifacts.get_artifact(given[0].uri)
    try:
        approval, key = opened(data, approvers)  # 2
    except (MalformedError, VerificationError) as error:
        return _nothing(error)
    if approval.repository != repository:  # 3
        return Approved(words="the approval that was given is about another repository")
    who = f"approved by {approval.approved_by} with key {key.key_id[:16]} until {approval.expires_at}: {approval.reason}"
    if has_expired(approval, context.now):  # 4
        return Approved(words=f"the approval that was given has ended ({approval.expires_at})")
    return Approved(frozenset(approval.changes), who)


def _nothing(error: GatewrightError) -> Approved:
    return Approved(words=f"the approval that was given counts for nothing ({error.reason}): {error.message}")
