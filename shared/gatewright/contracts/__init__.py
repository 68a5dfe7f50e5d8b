"""The documents that cross the bus: JSON Schemas are the authority, these frozen structs are their typed form."""

from gatewright.contracts.records import AgentRegistry, OrchestratorEvent, RunManifest, Transition
from gatewright.contracts.reports import (
    Error,
    EvidenceBundle,
    EvidenceReport,
    GateReport,
    Plan,
    ReexecReport,
    ReviewReport,
    TaskResult,
    TestReport,
    WorkReport,
)
from gatewright.contracts.run_request import AbortRequest, RequestTask, RunRequest, SubmitReply
from gatewright.contracts.task_contract import TaskContract

__all__ = [
    "AbortRequest",
    "AgentRegistry",
    "Error",
    "EvidenceBundle",
    "EvidenceReport",
    "GateReport",
    "OrchestratorEvent",
    "Plan",
    "ReexecReport",
    "RequestTask",
    "ReviewReport",
    "RunManifest",
    "RunRequest",
    "SubmitReply",
    "TaskContract",
    "TaskResult",
    "TestReport",
    "Transition",
    "WorkReport",
]
