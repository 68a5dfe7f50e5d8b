"""What the gates of one judgement share: the report in the making, the rules, the store of artifacts, and one moment in time.

Made once for each judgement, and never changed but for what the gates tell the report. A gate takes it first, and then what is
particular to that gate.
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
    """Where artifacts are stored, and fetched with their digest checked. Both raise ArtifactError and BusError."""

    async def put_artifact(self, data: bytes) -> str: ...

    async def get_artifact(self, uri: str) -> bytes: ...

    async def get_upload(self, uri: str, publisher: str) -> bytes: ...


@dataclass(frozen=True)
class GateContext:
    """Of any judgement. ``now`` is the moment for which it is made; ``started`` is ``clock.monotonic()`` then."""

    report: GateReportBuilder
    policies: Policies
    artifacts: Artifacts
    clock: Clock
    now: datetime
    started: float

    @classmethod
    def begin(cls, report: GateReportBuilder, policies: Policies, artifacts: Artifacts, clock: Clock) -> GateContext:
        """A judgement that begins now."""
        return cls(report, policies, artifacts, clock, clock.now(), clock.monotonic())

    def of_change(self, contract: TaskContract, mirror: Mirror, rules: Sequence[ApprovalRule] = ()) -> ChangeContext:
        """The same judgement, of a change under ``contract`` whose trees are in ``mirror``; ``rules`` ask people about it."""
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
        """Tell by which policies this is judged, where they are no more those that the run was accepted under.

        A gatekeeper that was started again, or another one beside it, may have others. The report names the digest over all
        of them and those of the files that differ; a file that is no longer there is in the first alone.
        """
        if self.policies.sha256 == accepted.policy_sha256:
            return
        self.report.saw(POLICIES, self.policies.sha256)
        for name, digest in sorted(self.policies.digests.items()):
            if accepted.policies.get(name) != digest:
                self.report.saw(f"{POLICIES}/{name}", digest)

    def close(self) -> GateReport:
        """The verdict."""
        return self.report.build(self.clock, self.started)


@dataclass(frozen=True)
class ChangeContext(GateContext):
    """Of a judgement about a change: what it may be by its contract, and where its trees are.

    ``ci_rule`` is the name of the approval rule that asks a person about changes of CI files; without one they are refused.
    """

    contract: TaskContract
    mirror: Mirror
    ci_rule: str = ""
