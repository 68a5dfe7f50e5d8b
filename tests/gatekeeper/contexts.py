"""The context of one judgement, for tests that ask a gate by itself."""

from __future__ import annotations

from functools import cache

from gatewright.clock import SystemClock
from gatewright.contracts.reports import GateName
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.dry_run import NoArtifacts
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies, load


@cache
def delivered_policies() -> Policies:
    """The policies as they are delivered."""
    return load(policy_directory())


def make_context(run_id: str, gate: GateName, policies: Policies | None = None) -> GateContext:
    """A judgement that begins now, without a store of artifacts."""
    return GateContext.begin(GateReportBuilder(run_id, gate), policies or delivered_policies(), NoArtifacts(), SystemClock())
