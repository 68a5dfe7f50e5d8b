"""Changes of the pipeline that a person has approved with a key: exactly those contents, in that repository, not yet ended.

The approval comes with the run, as its input artifact ``approval``. What is not approved is put among the evidence in the form
in which it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gatewright.contracts import TaskContract
from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.evidence.approvals import APPROVAL, TO_APPROVE, ApprovedChange, has_expired, opened
from gatewright.evidence.signing.keys import PublicKey
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder


@dataclass(frozen=True)
class Approved:
    """``changes`` are let through; ``words`` say by whom and why, or why nothing is."""

    changes: frozenset[ApprovedChange] = frozenset()
    words: str = ""

    def judge(self, change: TreeChange, rule: str, found: GateReportBuilder) -> None:
        """Let ``change`` pass, naming the approval, or refuse it, saying how to get one."""
        asked = as_approved(change)
        if asked in self.changes:
            found.checked(f"{rule}.approval", self.words)
            found.touched(rule, change.path)
            return
        hint = "opened only by a person's signed approval of exactly this content: gatewright approve RUN"
        found.violate("path_protected", rule, f"{hint}; {self.words}" if self.words else hint, change.path)
        # Neither what is only counted nor a name that may not be shown can be approved.
        if found.violations[-1].path == asked.path:
            found.saw(f"{TO_APPROVE}{asked.path}", f"{asked.old} -> {asked.new}")


#: No approval was given.
NOTHING = Approved()


def as_approved(change: TreeChange) -> ApprovedChange:
    """A change as an approval names it."""
    return ApprovedChange(display(change.path), f"{change.old_mode} {change.old_id}", f"{change.new_mode} {change.new_id}")


async def read_approval(
    contract: TaskContract,
    repository: str,
    artifacts: ArtifactCache,
    approvers: Sequence[PublicKey],
    now: datetime,
    found: GateReportBuilder,
) -> Approved:
    """What the run's approval lets through. Raises ArtifactError.

    1. there is one  2. a key that may approve has signed it  3. it is about this repository  4. it has not ended.
    """
    given = [artifact for artifact in contract.inputs.artifacts if artifact.name == APPROVAL]
    if not given:  # 1
        return NOTHING
    found.saw(APPROVAL, given[0].sha256)
    data = await artifacts.get_artifact(given[0].uri)
    try:
        approval, key = opened(data, approvers)  # 2
    except (MalformedError, VerificationError) as error:
        return _nothing(error)
    if approval.repository != repository:  # 3
        return Approved(words="the approval that was given is about another repository")
    who = f"approved by {approval.approved_by} with key {key.key_id[:16]} until {approval.expires_at}: {approval.reason}"
    if has_expired(approval, now):  # 4
        return Approved(words=f"the approval that was given has ended ({approval.expires_at})")
    return Approved(frozenset(approval.changes), who)


def _nothing(error: GatewrightError) -> Approved:
    return Approved(words=f"the approval that was given counts for nothing ({error.reason}): {error.message}")
