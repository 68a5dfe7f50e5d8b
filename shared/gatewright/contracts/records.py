"""What the gatekeeper writes: events, ledger transitions and the manifest of a run bundle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    END,
    Attempt,
    Count,
    Document,
    Filesystem,
    Network,
    NonEmpty,
    PolicyPack,
    Positive,
    RoleName,
    RunId,
    Sha256,
    Shell,
    Time,
    Timestamp,
)


class OrchestratorEvent(Document, omit_defaults=False):
    """One line of ``events.jsonl``: something that happened in a run, chained to what happened before it."""

    ts: Timestamp
    """When the gatekeeper decided it, RFC 3339 in UTC."""
    level: Literal["INFO", "WARN", "ERROR"]
    """ERROR for a failed gate or a failed run."""
    event_type: NonEmpty
    """What happened; decides what payload holds."""
    run_id: RunId
    task_id: str | None
    """The task it is about; null where it is about the run."""
    attempt: Attempt | None
    """Round of the fix loop; null where it is about the run."""
    payload: dict[str, Any]
    """Any object; its fields depend on event_type."""
    trace_id: str
    """Id of the distributed trace; empty where there is none."""
    seq: Positive = 1
    """Position in the run's event chain, 1 first."""
    prev_hash: str = ""
    """hash of the event before this one; 64 zeros for the first one."""
    hash: str = ""
    """SHA-256, in hex, of the canonical JSON of this event with an empty hash; prev_hash is included."""
    role: str | None = None
    """The role it is about."""
    agent_id: str | None = None
    """The agent it is about."""
    span_id: str | None = None
    """Span within the trace."""


class CommandRef(Document):
    """A task to publish once the transition is in the ledger."""

    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    """The role that receives the task."""
    pool: NonEmpty
    """Which pool of the role."""
    task_id: NonEmpty
    """The task; the run's state holds its document."""


class Cause(Document):
    """The input that led to a transition."""

    kind: NonEmpty
    """Kind of the input."""
    message_id: str
    """Id of the message that carried it. The same message twice changes nothing."""


class Transition(Document):
    """One message of the ledger: one step of a run, stored completely or not at all.

    Its events record what happened, its commands what follows.
    """

    run_id: RunId
    number: Positive
    """Position in the run's ledger, 1 first."""
    cause: Cause
    """The input that led to it."""
    events: Annotated[tuple[OrchestratorEvent, ...], Meta(min_length=1)]
    """What happened, in order."""
    commands: tuple[CommandRef, ...]
    """Tasks to publish once this is stored; publishing them twice is harmless."""


class QueueRecord(Document):
    """Something that happened in a merge queue."""

    event_type: NonEmpty
    """What happened; decides what payload holds."""
    payload: dict[str, Any]
    """Any object; its fields depend on event_type."""


class QueueTransition(Document):
    """One message of the stream of merge queues: one step of one queue, stored completely or not at all."""

    queue_id: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{20}}{END}")]
    """Id of the queue, which follows from repository and branch."""
    number: Positive
    """Position in the queue's stream, 1 first."""
    ts: Timestamp
    """When the gatekeeper decided it."""
    events: Annotated[tuple[QueueRecord, ...], Meta(min_length=1)]
    """What happened, in order."""


class RepoRecord(Document):
    """The repository and the commits of the change."""

    root: str
    """The repository as the order named it."""
    baseline_ref: str
    """Id of the commit that it started from."""
    remote_url: str | None = None
    """Its URL, if that differs."""
    branch: str | None = None
    """The ref that the change landed on."""
    final_ref: str | None = None
    """Id of the commit that landed."""


class TaskRecord(Document):
    """One task of the run, with the paths of its documents inside the bundle."""

    task_id: NonEmpty
    """Id of the task."""
    role: RoleName
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED", "BLOCKED", "SKIPPED"]
    """How the task ended."""
    contract: str
    """Path of its contract inside the bundle."""
    result: str | None = None
    """Path of its result inside the bundle."""
    review_report: str | None = None
    """Path of its review report inside the bundle."""
    test_report: str | None = None
    """Path of its test report inside the bundle."""


class FileRecord(Document):
    """A file of the bundle."""

    path: NonEmpty
    """Path inside the bundle, with /."""
    size: Count
    """Bytes."""
    sha256: Sha256
    same_as: NonEmpty | None = None
    """Path of the file that this one repeats byte for byte, because the layout requires both."""


class Integrity(Document):
    """What ties the bundle together: every file, the head and length of the event chain, the place in the ledger."""

    files: tuple[FileRecord, ...]
    """Every file of the bundle but the manifest and its signature."""
    chain_head: Sha256
    """hash of the last event."""
    chain_length: Count
    """Number of events."""
    ledger_stream: str
    """Stream that holds the run."""
    ledger_subject: str
    """Subject that holds the run."""
    transitions: Count
    """Number of transitions."""
    policy_sha256: str
    """SHA-256, in hex, of the policies that were in force."""
    signer: str
    """Id of the key that signs."""
    ledger_first: Positive | None = None
    """Stream sequence of the first ledger message that the bundle rests on."""
    ledger_last: Positive | None = None
    """Stream sequence of the last ledger message that the bundle rests on."""


class RunManifest(Document):
    """What a run bundle is and holds (specification 5). Its digest is what gets signed."""

    run_id: RunId
    created_at: Timestamp
    """When the run was accepted."""
    status: Literal["RUNNING", "SUCCESS", "FAILURE"]
    """Outcome of the run. An aborted run is a FAILURE whose failure_reason begins with aborted."""
    user_request: str
    """The request, in the requester's words."""
    trace_id: str
    """Id of the distributed trace; empty where there is none."""
    repo: RepoRecord
    """Where the change was made."""
    versions: dict[str, str]
    """Version of each program and schema that was used, by name."""
    tasks: tuple[TaskRecord, ...]
    """Every task of the run."""
    artifacts: tuple[str, ...]
    """Paths inside the bundle of what the roles stored."""
    evidence_hashes: dict[str, Sha256]
    """SHA-256 of each file of specification 5.2 that the run left, by path inside the bundle."""
    finished_at: Time | None = None
    """When it ended."""
    failure_reason: str | None = None
    """Reason code, colon, words, for a run that did not succeed."""
    integrity: Integrity | None = None
    """Files, event chain and place in the ledger, which tie the bundle together."""
    policy_pack: PolicyPack | None = None
    """Risk tier of the change."""
    runner: str | None = None
    """What made the change: an executor's kind."""
    model: str | None = None
    """The model, where one was asked."""
    layout: Positive | None = None
    """Version of the bundle layout. The first bundles name none."""
    publisher: str | None = None
    """The identity that submitted the run, as the bus knew it, not a claim; default: the identity without a name."""


class AgentDefaults(Document):
    sandbox: Filesystem
    approval_policy: Shell
    network: Network


class RegisteredAgent(Document):
    agent_id: NonEmpty
    """Id that contracts assign by."""
    role: RoleName
    defaults: AgentDefaults
    """The most that a contract may ask for."""
    capabilities: tuple[str, ...] = ()
    """Its capabilities, for routing."""
    codex_home: str | None = None
    """Home directory of its agent program."""


class RegisteredRoleContract(Document):
    """The standing part of a role contract."""

    role: RoleName
    purpose: NonEmpty
    """What the role is for."""
    fail_closed_conditions: tuple[NonEmpty, ...] = ()
    """Conditions, in words, under which the role must stop."""


class AgentRegistry(Document):
    """Which agents there are and the most that each may do: the role permission matrix (specification 8, mechanism 5)."""

    version: NonEmpty
    """Version of this registry."""
    agents: tuple[RegisteredAgent, ...]
    """The agents."""
    role_contracts: tuple[RegisteredRoleContract, ...] = ()
    """The standing part of each role's contract."""
