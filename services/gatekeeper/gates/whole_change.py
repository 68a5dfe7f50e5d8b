"""Rules of the integrated gate on the whole change, beyond its paths: permission, pack, forbidden edits, organisation rules."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.vocabulary import Executor
from gatewright.git.paths import display
from gatewright.git.request_head import authors_fault
from gatewright.path_patterns.code_owners import by_line
from gatewright.rules.approvals import result_rules, touched_path_classes
from gatewright.rules.reviewing import OWNED
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.cel_gate import judge_diff_rules
from gatewright.services.gatekeeper.gates.change.candidate import ComposedCandidate
from gatewright.services.gatekeeper.gates.context import ChangeContext
from gatewright.services.gatekeeper.gates.contract.forbidden_actions import judge_forbidden_edits
from gatewright.services.gatekeeper.gates.contract.packs import judge_pack_diff

_PATH_CLASS = "path_class."
_PROTECTED = "protected_paths."
_AUTHORS = "source_branch.authors"


async def judge_whole_change(
    context: ChangeContext, candidate: ComposedCandidate, executor: Executor | None, asked: Sequence[ApprovalRule] = ()
) -> None:
    """Judge the whole change.

    1. A read-only worker changed nothing.
    2. The pack's maximum size.
    3. Forbidden edits.
    4. Organisation rules.
    5. Owners of the changed files, where a rule asks them.
    6. Classes of paths that rules name.

    Args:
        context: the gate context with its mirror.
        candidate: the composed change.
        executor: the executor that made the change.
        asked: the approval rules that apply to the run.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, contract = context.report, context.contract
    granted = contract.tool_permissions.filesystem
    report.checked("tool_permissions.filesystem", granted)
    if granted == "read-only" and candidate.changes:  # 1
        report.violate("permission_too_wide", "tool_permissions.filesystem", "the contract lets files be read, not changed")
    judge_pack_diff(context, len(candidate.changes))  # 2
    judge_forbidden_edits(context, candidate.changes)  # 3
    await judge_diff_rules(context, candidate.changes, len(candidate.patch), executor)  # 4
    _name_owners(context, candidate, asked)  # 5
    name_path_classes(context, candidate, asked)  # 6


async def judge_reviewed(context: ChangeContext, candidate: ComposedCandidate, run: Run) -> None:
    """Prepare the votes on reviewed commits, where rules may ask people.

    1. The order names every author, because no author may vote.
    2. Owners, classes of paths, and protected classes, which raise the risk.

    Raises:
        GitError: the mirror cannot be read.
    """
    rules, source, report = result_rules(run), context.contract.source_branch, context.report
    if not rules or source is None:
        return
    report.checked(_AUTHORS)
    if fault := await authors_fault(context.mirror, source):  # 1
        report.violate("source_differs", _AUTHORS, fault)
    _name_owners(context, candidate, rules)  # 2
    name_path_classes(context, candidate, rules)
    for change in candidate.changes:
        for kind in context.policies.path_classes(change.path):
            report.touched(f"{_PROTECTED}{kind.name}", change.path)
    report.asks_about_touched(_PROTECTED, "protected_class")


def name_path_classes(context: ChangeContext, candidate: ComposedCandidate, rules: Sequence[ApprovalRule]) -> None:
    """Name each class of paths of the rules, and add the classes that the change touches as reasons for approval."""
    for rule in rules:
        if rule.reason == "path_class":
            number = "1 approval" if rule.approvals == 1 else f"{rule.approvals} approvals"
            context.report.checked(f"{_PATH_CLASS}{rule.name}", f"needs {number} of {', '.join(rule.approvers)}")
    for name, paths in touched_path_classes(rules, (change.path for change in candidate.changes)).items():
        for path in paths:
            context.report.touched(f"{_PATH_CLASS}{name}", path)
    context.report.asks_about_touched(_PATH_CLASS, "path_class")


def _name_owners(context: ChangeContext, candidate: ComposedCandidate, asked: Sequence[ApprovalRule]) -> None:
    """Add the lines of the owners file that cover the change as reasons for approval. All rules get the same lines."""
    owned = next((rule.quorum.owners for rule in asked if rule.quorum is not None and rule.quorum.by_owner), None)
    if owned is None:
        return
    owners = {each.line: f"{each.pattern} of {', '.join(each.owners)}" for each in owned}
    for line, paths in by_line(owned, (change.path for change in candidate.changes)).items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        context.report.asks(f"{OWNED}{line}", f"{owners.get(line, 'of no owner')}: {display(paths[0])}{more}")
