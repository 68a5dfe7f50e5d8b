"""Bytes to typed documents and back, by schema name.

The struct's strict decoding answers the accept path. When it refuses, the JSON Schema that is generated from it writes the
error report, so that every fault is named by JSON pointer. Tests compare the two on generated documents.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from gatewright import contracts
from gatewright.contracts import forms
from gatewright.contracts.schemas import fault_report
from gatewright.contracts.strict_json import MAX_WORDS, is_shallow, parse, pointer
from gatewright.contracts.vocabulary import MAX_INTEGER, Document
from gatewright.errors import Fault, MalformedError, UnknownSchemaError
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

D = TypeVar("D", bound=Document)

#: Schema name -> type. A test checks that the files in shared/schemas match this table one to one.
DOCUMENTS: dict[str, type[Document]] = {
    "abort_request.v1": contracts.AbortRequest,
    "agent_registry.v1": contracts.AgentRegistry,
    "approval_decision.v1": contracts.ApprovalDecision,
    "approval_grant.v1": contracts.ApprovalGrant,
    "approval_list.v1": contracts.ApprovalList,
    "approval_request.v1": contracts.ApprovalRequest,
    "approval_rules.v1": contracts.ApprovalRules,
    "approvals_request.v1": contracts.ApprovalsRequest,
    "approver_roster.v1": contracts.ApproverRoster,
    "blocked.v1": contracts.Blocked,
    "brief.v1": contracts.Brief,
    "bundle_part.v1": contracts.BundlePart,
    "bundle_request.v1": contracts.BundleRequest,
    "canonical_memory.v1": contracts.CanonicalMemory,
    "completion_report.v1": contracts.CompletionReport,
    "context_request.v1": contracts.ContextRequest,
    "contract_proposal.v1": contracts.ContractProposal,
    "critic_opinion.v1": contracts.CriticOpinion,
    "decision_batch.v1": contracts.DecisionBatch,
    "decision_reply.v1": contracts.DecisionReply,
    "decisions_log.v1": contracts.DecisionsLog,
    "done.v1": contracts.Done,
    "environment_inventory.v1": contracts.EnvironmentInventory,
    "environment_order.v1": contracts.EnvironmentOrder,
    "environment_result.v1": contracts.EnvironmentResult,
    "error.v1": contracts.Error,
    "events_request.v1": contracts.EventsRequest,
    "evidence_bundle.v1": contracts.EvidenceBundle,
    "evidence_report.v1": contracts.EvidenceReport,
    "budget_states.v1": contracts.BudgetStates,
    "budgets_request.v1": contracts.BudgetsRequest,
    "flaky_tests.v1": contracts.FlakyTests,
    "flaky_tests_request.v1": contracts.FlakyTestsRequest,
    "forges.v1": contracts.Forges,
    "gate_report.v1": contracts.GateReport,
    "grant_change.v1": contracts.GrantChange,
    "grant_revocation.v1": contracts.GrantRevocation,
    "legal_hold.v1": contracts.LegalHold,
    "memory_request.v1": contracts.MemoryRequest,
    "merge_action.v1": contracts.MergeAction,
    "merge_action_reply.v1": contracts.MergeActionReply,
    "merge_instruction.v1": contracts.MergeInstruction,
    "merge_queues.v1": contracts.MergeQueues,
    "merge_queues_request.v1": contracts.MergeQueuesRequest,
    "orchestrator_event.v1": contracts.OrchestratorEvent,
    "plan.v1": contracts.Plan,
    "plan_proposal.v1": contracts.PlanProposal,
    "progress_packet.v1": contracts.ProgressPacket,
    "provenance_manifest.v1": contracts.ProvenanceManifest,
    "qa_opinion.v1": contracts.QaOpinion,
    "reexec_report.v1": contracts.ReexecReport,
    "request_task.v1": contracts.RequestTask,
    "review_opinion.v1": contracts.ReviewOpinion,
    "review_report.v1": contracts.ReviewReport,
    "review_routing.v1": contracts.ReviewRouting,
    "routing_rules.v1": contracts.RoutingRules,
    "revision_order.v1": contracts.RevisionOrder,
    "revision_packet.v1": contracts.RevisionPacket,
    "revision_trail.v1": contracts.RevisionTrail,
    "role_binding_read_model.v1": contracts.RoleBindingReadModel,
    "role_binding_summary.v1": contracts.RoleBindingSummary,
    "role_contract_summary.v1": contracts.RoleContractSummary,
    "run_context.v1": contracts.RunContext,
    "run_events.v1": contracts.RunEvents,
    "run_list.v1": contracts.RunList,
    "run_manifest.v1": contracts.RunManifest,
    "run_request.v1": contracts.RunRequest,
    "run_status.v1": contracts.RunStatus,
    "runs_request.v1": contracts.RunsRequest,
    "status_claim.v1": contracts.StatusClaim,
    "status_request.v1": contracts.StatusRequest,
    "submit_reply.v1": contracts.SubmitReply,
    "summons_answer.v1": contracts.SummonsAnswer,
    "summons_list.v1": contracts.SummonsList,
    "summons_opinion.v1": contracts.SummonsOpinion,
    "summons_request.v1": contracts.SummonsRequest,
    "summons_task.v1": contracts.SummonsTask,
    "task_contract.v1": contracts.TaskContract,
    "task_result.v1": contracts.TaskResult,
    "test_report.v1": contracts.TestReport,
    "tombstone.v1": contracts.Tombstone,
    "transfer_manifest.v1": contracts.TransferManifest,
    "artifact_meta.v1": contracts.ArtifactMeta,
    "policy_exception.v1": contracts.PolicyException,
    "publication.v1": contracts.Publication,
    "deployment.v1": contracts.Deployment,
    "position_report.v1": contracts.PositionReport,
    "queue_receipt.v1": contracts.QueueReceipt,
    "queue_rules.v1": contracts.QueueRules,
    "queue_transition.v1": contracts.QueueTransition,
    "transition.v1": contracts.Transition,
    "usage_report.v1": contracts.UsageReport,
    "agent_activity.v1": contracts.AgentActivity,
    "agent_answer.v1": contracts.AgentAnswer,
    "agent_leave.v1": contracts.AgentLeave,
    "agent_question.v1": contracts.AgentQuestion,
    "workflow_case_read_model.v1": contracts.WorkflowCaseReadModel,
    "work_report.v1": contracts.WorkReport,
}
#: A refused document with more commas than this gets the decoder's first fault only: the full report would take seconds.
MAX_REPORTED_COMMAS = 20_000

_NAMES = {document: name for name, document in DOCUMENTS.items()}
_CANONICAL = msgspec.json.Encoder(order="sorted")
_REFUSALS = (UnreadableDocumentError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def schema_of(document: Document) -> str:
    """The schema name (``task_contract.v1``) of a document."""
    return schema_name(type(document))


def schema_name(kind: type[Document]) -> str:
    """The same of a kind of documents."""
    return _NAMES[kind]


def encode(document: Document) -> bytes:
    """Encode as canonical JSON: UTF-8, keys sorted by code point, no white space. Equal documents give equal bytes.

    Raises:
        MalformedError: JSON cannot represent the document: a lone surrogate, or endless nesting.
    """
    try:
        return _CANONICAL.encode(document)
    except (UnicodeEncodeError, RecursionError) as error:
        raise MalformedError(f"cannot be written as JSON: {error}") from error


@cache
def _decoder(kind: type[Document]) -> JsonReader[Document]:
    """Made when it is first needed: no process reads documents of all kinds."""
    return JsonReader(kind)


def decode(data: bytes, kind: type[D]) -> D:
    """``data`` as a document of type ``kind``.

    Raises MalformedError, with one Fault for everything that the JSON Schema finds wrong; with the code ``cortexpilot_form``
    where CortexPilot writes a document of that name so.
    """
    try:
        document = _decoder(kind).decode(data)
        if not (is_shallow(data) and _CANONICAL.encode(document) == data):
            parse(data)  # not our own bytes: a struct does not see a key that stands twice
    except MalformedError as error:
        raise _malformed_error(kind, error.faults) from error
    except _REFUSALS as error:
        document = _by_schema(data, kind, error)
    assert isinstance(document, kind)  # noqa: S101 - narrows the type for the checker; the decoder guarantees it
    return document


def decode_named(data: bytes, name: str) -> Document:
    """``data`` as the document that the schema ``name`` describes. Raises UnknownSchemaError, MalformedError."""
    try:
        kind = DOCUMENTS[name]
    except KeyError:
        raise UnknownSchemaError(f"unknown schema {name[:100]!r}") from None
    return decode(data, kind)


def _by_schema(data: bytes, kind: type[Document], refusal: Exception) -> Document:
    """The schema is the authority on what the decoder refused: an integer may be written 1.0."""
    faults: tuple[Fault, ...] = ()
    if data.count(b",") <= MAX_REPORTED_COMMAS:
        faults = fault_report(_NAMES[kind], data)
        if not faults:
            try:
                return msgspec.convert(_integers(parse(data)), kind)
            except _REFUSALS as error:
                refusal = error
        elif forms.is_cortexpilots(_NAMES[kind], data):
            raise _other_form(kind, faults) from refusal
    raise _malformed_error(kind, faults or (_decoder_fault(refusal),)) from refusal


def _integers(value: Any) -> Any:
    """``value`` with every whole float as the integer that it is; a field that wants a float takes integers too."""
    if isinstance(value, dict):
        return {key: _integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_integers(each) for each in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER
    return int(value) if whole else value


def _decoder_fault(refusal: Exception) -> Fault:
    """The decoder's own words, its path (``$.tasks[0].role``) turned into a pointer."""
    words, _, path = str(refusal).partition(" - at `$")
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", path)  # noqa: TID251 - linear: each try ends where the next one begins
    return Fault(pointer(name or index for name, index in steps), "invalid", words[:MAX_WORDS])


def _malformed_error(kind: type[Document], faults: tuple[Fault, ...]) -> MalformedError:
    first = faults[0]
    return MalformedError(f"not a valid {_NAMES[kind]}: {first.pointer or '/'}: {first.message}", faults=faults)


def _other_form(kind: type[Document], faults: tuple[Fault, ...]) -> MalformedError:
    first = faults[0]
    words = f"a {_NAMES[kind]} in CortexPilot's form, which is checked but never judged by"
    return MalformedError(f"{words}; in Gatewright's: {first.pointer}: {first.message}", faults=faults, code=forms.CODE)
