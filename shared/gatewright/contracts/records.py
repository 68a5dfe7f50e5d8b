"""What the gatekeeper writes: events, ledger transitions and the manifest of a run bundle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
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
    Timestamp,
)


class OrchestratorEvent(Document, omit_defaults=False):
    """One line of events.jsonl. ``hash`` is sha256 over the canonical JSON of all other fields, ``prev_hash`` included."""

    ts: Timestamp
    level: Literal["INFO", "WARN", "ERROR"]
    event_type: NonEmpty
    run_id: RunId
    task_id: str | None
    attempt: Attempt | None
    payload: dict[str, Any]
    trace_id: str
    seq: Positive = 1
    prev_hash: str = ""
    hash: str = ""
    role: str | None = None
    agent_id: str | None = None
    span_id: str | None = None


class CommandRef(Document):
    """A task to publish once the transition is in the ledger: the run's state holds its document."""

    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    pool: NonEmpty
    task_id: NonEmpty


class Cause(Document):
    """The input that led to a transition: its kind and the id of the message that carried it."""

    kind: NonEmpty
    message_id: str


class Transition(Document):
    """One message of the ledger: one step of a run, whole or not at all."""

    run_id: RunId
    number: Positive
    cause: Cause
    events: Annotated[tuple[OrchestratorEvent, ...], Meta(min_length=1)]
    commands: tuple[CommandRef, ...]


class RepoRecord(Document):
    root: str
    baseline_ref: str
    remote_url: str | None = None
    branch: str | None = None
    final_ref: str | None = None


class TaskRecord(Document):
    """``contract``, ``result`` and the reports are paths inside the bundle."""

    task_id: NonEmpty
    role: RoleName
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED", "BLOCKED", "SKIPPED"]
    contract: str
    result: str | None = None
    review_report: str | None = None
    test_report: str | None = None


class FileRecord(Document):
    """A file of the bundle: path with ``/``, size in bytes, digest.

    ``same_as`` is the first place of the same fact, where the layout asks for a second: the bytes are equal.
    """

    path: NonEmpty
    size: Count
    sha256: Sha256
    same_as: NonEmpty | None = None


class Integrity(Document):
    """What ties the bundle together: every file, the head and length of the event chain, the place in the ledger.

    ``ledger_first`` and ``ledger_last`` are the stream sequences of the first and the last of its ``transitions`` messages.
    """

    files: tuple[FileRecord, ...]
    chain_head: Sha256
    chain_length: Count
    ledger_stream: str
    ledger_subject: str
    transitions: Count
    policy_sha256: str
    signer: str
    ledger_first: Positive | None = None
    ledger_last: Positive | None = None


class RunManifest(Document):
    """``layout`` is the version of the bundle's form; the first bundles that were written did not name theirs."""

    run_id: RunId
    created_at: Timestamp
    status: Literal["RUNNING", "SUCCESS", "FAILURE"]
    user_request: str
    trace_id: str
    repo: RepoRecord
    versions: dict[str, str]
    tasks: tuple[TaskRecord, ...]
    artifacts: tuple[str, ...]
    evidence_hashes: dict[str, Sha256]
    finished_at: str | None = None
    #: Reason code and words, for a run that did not succeed; an aborted one begins with ``aborted``.
    failure_reason: str | None = None
    integrity: Integrity | None = None
    policy_pack: PolicyPack | None = None
    runner: str | None = None
    model: str | None = None
    layout: Positive | None = None
    #: Who submitted the run: the identity that the bus knew.
    publisher: str | None = None


class AgentDefaults(Document):
    sandbox: Filesystem
    approval_policy: Shell
    network: Network


class RegisteredAgent(Document):
    agent_id: NonEmpty
    role: RoleName
    defaults: AgentDefaults
    capabilities: tuple[str, ...] = ()
    codex_home: str | None = None


class RegisteredRoleContract(Document):
    """The standing part of a role contract: purpose and what makes the role stop."""

    role: RoleName
    purpose: NonEmpty
    fail_closed_conditions: tuple[NonEmpty, ...] = ()


class AgentRegistry(Document):
    version: NonEmpty
    agents: tuple[RegisteredAgent, ...]
    role_contracts: tuple[RegisteredRoleContract, ...] = ()
