"""The documents that cross the bus: JSON Schemas are the authority, these frozen structs are their typed form."""

from gatewright.contracts.completion import CompletionReport
from gatewright.contracts.proposals import ContractProposal, PlanProposal, ReviewOpinion
from gatewright.contracts.records import AgentRegistry, OrchestratorEvent, RunManifest, Transition
from gatewright.contracts.reports import (
    AgentActivity,
    Error,
    EvidenceBundle,
    EvidenceReport,
    GateReport,
    Plan,
    ReexecReport,
    ReviewReport,
    TaskResult,
    TestReport,
    UsageReport,
    WorkReport,
)
from gatewright.contracts.retention import LegalHold, Tombstone
from gatewright.contracts.run_request import AbortRequest, RequestTask, RunRequest, SubmitReply
from gatewright.contracts.run_status import EventsRequest, RunEvents, RunList, RunsRequest, RunStatus, StatusRequest
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.work_documents import (
    Blocked,
    Brief,
    DecisionsLog,
    Done,
    ProvenanceManifest,
    RevisionPacket,
    RevisionTrail,
)

__all__ = [
    "AbortRequest",
    "AgentActivity",
    "AgentRegistry",
    "Blocked",
    "Brief",
    "CompletionReport",
    "ContractProposal",
    "DecisionsLog",
    "Done",
    "Error",
    "EventsRequest",
    "EvidenceBundle",
    "EvidenceReport",
    "GateReport",
    "LegalHold",
    "OrchestratorEvent",
    "Plan",
    "PlanProposal",
    "ProvenanceManifest",
    "ReexecReport",
    "RequestTask",
    "ReviewOpinion",
    "ReviewReport",
    "RevisionPacket",
    "RevisionTrail",
    "RunEvents",
    "RunList",
    "RunManifest",
    "RunRequest",
    "RunStatus",
    "RunsRequest",
    "StatusRequest",
    "SubmitReply",
    "TaskContract",
    "TaskResult",
    "TestReport",
    "Tombstone",
    "Transition",
    "UsageReport",
    "WorkReport",
]
