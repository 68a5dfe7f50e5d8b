"""Shared context of the gates of one judgement: the report under construction, the policies, the artifact store, and the time.

Created once per judgement. Only the report changes. A gate takes the context as its first argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gatewright.clock import Clock
from gatewright.contracts import GateReport, TaskContract
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.git.mirror import Mirror
from gatewright.rules.gate_evidence import POLICIES
from gatewright.run.events import RunAccepted
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies


class Artifacts(Protocol):
    """Artifact store that checks digests. Both methods raise ArtifactError and BusError."""

    async def put_artifact(self, data: bytes) -> str: ...

    async def get_artifact(self, uri: str) -> bytes: ...

    async def get_upload(self, uri: str, publisher: str) -> bytes: ...


@dataclass(frozen=True)
class GateContext:
    """Context of any judgement. ``now`` is its time; ``started`` is ``clock.monotonic()`` at its start."""

    report: GateReportBuilder
    policies: Policies
    artifacts: Artifacts
    clock: Clock
    now: datetime
    started: float

    @classmethod
    def begin(cls, report: GateReportBuilder, policies: Policies, artifacts: Artifacts, clock: Clock) -> GateContext:
        """Start a judgement now."""
        return cls(report, policies, artifacts, clock, clock.now(), clock.monotonic())

    def of_change(self, contract: TaskContract, mirror: Mirror, rules: Sequence[ApprovalRule] = ()) -> ChangeContext:
        """Return the context for judging a change.

        Args:
            contract: the contract of the change.
            mirror: mirror that holds the trees.
            rules: approval rules that apply to the change.
        """
        return ChangeContext(
            report=self.report,
            policies=self.policies,
            artifacts=self.artifacts,
            clock=self.clock,
            now=self.now,
            started=self.started,
            contract=contract,
            mirror=mirror,
            ci_rule=next((rule.name for rule in rules if rule.opens_ci), ""),
        )

    def names_other_policies(self, accepted: RunAccepted) -> None:
        """Record the policies of this judgement if they differ from those that the run was accepted under.

        A restarted gatekeeper, or another replica, may have other policies. The report names the digest over all policy files
        and the digests of the files that differ. A deleted file appears only in the first.
        """
        if self.policies.sha256 == accepted.policy_sha256:
            return
        self.report.saw(POLICIES, self.policies.sha256)
        for name, digest in sorted(self.policies.digests.items()):
            if accepted.policies.get(name) != digest:
                self.report.saw(f"{POLICIES}/{name}", digest)

    def close(self) -> GateReport:
        """Build the verdict."""
        return self.report.build(self.clock, self.started)


@dataclass(frozen=True)
class ChangeContext(GateContext):
    """Context of a judgement about a change: its contract, and the mirror with its trees.

    ``ci_rule`` is the name of the approval rule that covers changes of CI files; without one they are refused.
    """

    contract: TaskContract
    mirror: Mirror
    ci_rule: str = ""
