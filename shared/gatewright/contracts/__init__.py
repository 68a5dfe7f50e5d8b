"""The documents that cross the bus: each is defined by one frozen struct, and its JSON Schema is generated from that."""

from gatewright.contracts.activity import AgentActivity, AgentAnswer, AgentLeave, AgentQuestion, StatusClaim, UsageReport
from gatewright.contracts.completion import CompletionReport
from gatewright.contracts.consultation import Blocked
from gatewright.contracts.deployment import Deployment
from gatewright.contracts.environment_order import EnvironmentOrder, EnvironmentResult
from gatewright.contracts.forge_policy import Forges
from gatewright.contracts.inventory import EnvironmentInventory
from gatewright.contracts.merge_queue import MergeAction, MergeActionReply, MergeInstruction, MergeQueues, MergeQueuesRequest
from gatewright.contracts.people.approvals import (
    ApprovalDecision,
    ApprovalGrant,
    ApprovalList,
    ApprovalRequest,
    ApprovalRules,
    ApprovalsRequest,
    ApproverRoster,
    DecisionBatch,
    DecisionReply,
    GrantChange,
    GrantRevocation,
)
from gatewright.contracts.people.revision_orders import RevisionOrder
from gatewright.contracts.people.summons import (
    CriticOpinion,
    QaOpinion,
    SummonsAnswer,
    SummonsList,
    SummonsOpinion,
    SummonsRequest,
    SummonsTask,
)
from gatewright.contracts.progress import CanonicalMemory, ProgressPacket
from gatewright.contracts.proposals import ContractProposal, PlanProposal, ReviewOpinion
from gatewright.contracts.publication import ArtifactMeta, PolicyException, Publication
from gatewright.contracts.queue_policy import QueueRules
from gatewright.contracts.queue_receipt import PositionReport, QueueReceipt
from gatewright.contracts.read_models import (
    RoleBindingReadModel,
    RoleBindingSummary,
    RoleContractSummary,
    WorkflowCaseReadModel,
)
from gatewright.contracts.records import AgentRegistry, OrchestratorEvent, QueueTransition, RunManifest, Transition
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
from gatewright.contracts.retention import LegalHold, Tombstone
from gatewright.contracts.routing import ReviewRouting, RoutingRules
from gatewright.contracts.run_request import AbortRequest, RequestTask, RunRequest, SubmitReply
from gatewright.contracts.run_status import (
    BudgetsRequest,
    BudgetState,
    BudgetStates,
    BundlePart,
    BundleRequest,
    ContextRequest,
    EventsRequest,
    FlakyTest,
    FlakyTests,
    FlakyTestsRequest,
    MemoryRequest,
    RunContext,
    RunEvents,
    RunList,
    RunsRequest,
    RunStatus,
    StatusRequest,
)
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.work_documents import Brief, DecisionsLog, Done, ProvenanceManifest, RevisionPacket, RevisionTrail
