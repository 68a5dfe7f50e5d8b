"""What the integrated gate asks of the whole change beyond its paths: permission, pack, forbidden edits, rules."""

from __future__ import annotations

from gatewright.contracts import TaskContract
from gatewright.git.mirror import Mirror
from gatewright.services.gatekeeper.gates.cel_gate import judge_diff_rules
from gatewright.services.gatekeeper.gates.change.candidate import ComposedCandidate
from gatewright.services.gatekeeper.gates.contract.forbidden_actions import judge_forbidden_edits
from gatewright.services.gatekeeper.gates.contract.packs import judge_pack_diff
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies


async def judge_whole_change(
    candidate: ComposedCandidate, contract: TaskContract, mirror: Mirror, policies: Policies, found: GateReportBuilder
) -> None:
    """1. whoever may only read has changed nothing  2. the pack's size  3. forbidden edits  4. the organisation's rules.

    Raises GitError.
    """
    granted = contract.tool_permissions.filesystem
    found.checked("tool_permissions.filesystem", granted)
    if granted == "read-only" and candidate.changes:  # 1
        found.violate("permission_too_wide", "tool_permissions.filesystem", "the contract lets files be read, not changed")
    judge_pack_diff(contract.policy_pack, len(candidate.changes), policies, found)  # 2
    judge_forbidden_edits(candidate.changes, contract, found)  # 3
    await judge_diff_rules(candidate.changes, len(candidate.patch), contract, mirror, policies, found)  # 4
