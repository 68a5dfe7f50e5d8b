"""What the integrated gate asks of the whole change beyond its paths: permission, pack, forbidden edits, rules."""

from __future__ import annotations

from gatewright.contracts.vocabulary import Executor
from gatewright.services.gatekeeper.gates.cel_gate import judge_diff_rules
from gatewright.services.gatekeeper.gates.change.candidate import ComposedCandidate
from gatewright.services.gatekeeper.gates.context import ChangeContext
from gatewright.services.gatekeeper.gates.contract.forbidden_actions import judge_forbidden_edits
from gatewright.services.gatekeeper.gates.contract.packs import judge_pack_diff


async def judge_whole_change(context: ChangeContext, candidate: ComposedCandidate, executor: Executor | None) -> None:
    """1. a worker that may only read has changed nothing  2. the pack's size  3. forbidden edits  4. the organisation's rules.

    ``executor`` made the change. Raises GitError.
    """
    report, contract = context.report, context.contract
    granted = contract.tool_permissions.filesystem
    report.checked("tool_permissions.filesystem", granted)
    if granted == "read-only" and candidate.changes:  # 1
        report.violate("permission_too_wide", "tool_permissions.filesystem", "the contract lets files be read, not changed")
    judge_pack_diff(context, len(candidate.changes))  # 2
    judge_forbidden_edits(context, candidate.changes)  # 3
    await judge_diff_rules(context, candidate.changes, len(candidate.patch), executor)  # 4
