"""What a person has approved of a change, as gates ask it: it passes, and the rest is told how to get an approval."""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.evidence.approvals import TO_APPROVE, ApprovedChange
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder


@dataclass(frozen=True)
class Approved:
    """``changes`` are let through; ``words`` say by whom and why, or why nothing is."""

    changes: frozenset[ApprovedChange] = frozenset()
    words: str = ""

    def judge(self, change: TreeChange, rule: str, report: GateReportBuilder) -> None:
        """Let ``change`` pass, naming the approval, or refuse it, saying how to get one."""
        asked = as_approved(change)
        if asked in self.changes:
            report.checked(f"{rule}.approval", self.words)
            report.touched(rule, change.path)
            return
        hint = "opened only by a person's signed approval of exactly this content: gatewright approve RUN"
        report.violate("path_protected", rule, f"{hint}; {self.words}" if self.words else hint, change.path)
        # Neither what is only counted nor a name that may not be shown can be approved.
        if report.violations[-1].path == asked.path:
            report.saw(f"{TO_APPROVE}{asked.path}", f"{asked.old} -> {asked.new}")


#: No approval was given.
NOTHING = Approved()


def as_approved(change: TreeChange) -> ApprovedChange:
    """A change as an approval names it."""
    return ApprovedChange(display(change.path), f"{change.old_mode} {change.old_id}", f"{change.new_mode} {change.new_id}")
