"""A run told in other systems' documents: OmegaOS' brief, done and blocked, decisions, TheHood's revisions, CHORUS' provenance.

They are views of a run and never decide anything.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.people.revision_orders import VoidVote
from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import (
    Attempt,
    Count,
    Document,
    NonEmpty,
    Positive,
    RunId,
    Seconds,
    Sha256,
    Timestamp,
    keep_one_spelling,
)


class BriefContext(Document):
    project_root: str
    stack: str
    prior_runs: tuple[str, ...]
    deployed_url: str | None = None


class BriefScope(Document):
    files_owned: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]


class BriefSpec(Document):
    scope: BriefScope


class Brief(Document):
    """What the worker is told. ``verify_command`` proves ``done_criteria``; ``files_owned`` is a hard boundary."""

    id: NonEmpty
    mission: Annotated[str, Meta(min_length=1, max_length=200)]
    purpose: str
    context: BriefContext
    whats_done: tuple[str, ...]
    current_task: str
    done_criteria: NonEmpty
    verify_command: NonEmpty
    key_decisions: tuple[str, ...]
    spec: BriefSpec
    relevant_memories: tuple[str, ...]
    ship: bool
    audit_gates: tuple[NonEmpty, ...]
    lifecycle: Literal["ephemeral", "persistent"]


class DoneEvidence(Document):
    """``verify_exit_code`` is null when nothing was run."""

    verify_command: str
    verify_exit_code: int | None
    verify_stdout: str
    verify_stderr: str
    artefacts: tuple[str, ...]


class DoneAudit(Document):
    gates_required: tuple[NonEmpty, ...]
    gates_passed: tuple[NonEmpty, ...]
    scores: dict[str, Count]
    verdict: Literal["satisfied", "partial", "unsatisfied"]


class DoneShip(Document):
    requested: bool
    result: Literal["ok", "failed", "skipped", "frozen"]
    commit: str | None = None
    deploy_url: str | None = None
    deploy_status: Literal["READY", "ERROR", "TIMEOUT"] | None = None


class Done(Document):
    """How work ended. Which combinations of these fields are lies is told by ``work_documents.done.check``."""

    agent: NonEmpty
    project: NonEmpty
    status: Literal["done_clean", "pending", "failed"]
    started_at: Timestamp
    finished_at: Timestamp
    duration_sec: Seconds
    mission: NonEmpty
    evidence: DoneEvidence
    audit: DoneAudit
    regressions: tuple[str, ...]
    pending_actions: tuple[str, ...]
    ship: DoneShip
    report_path: str

    def __post_init__(self) -> None:
        keep_one_spelling(self, "duration_sec")


class Decision(Document):
    """``falsifier`` is the check that would prove the decision wrong; ``event`` the number of the event that records it.

    ``by`` is the role that decided; an older log does not say it. ``id`` stays for good; ``supersedes`` is that of the earlier
    decision in whose place this one stands, and which is kept as it was written. Logs older than they are have neither.
    """

    at: Timestamp
    title: NonEmpty
    task: str
    classification: Literal["SIMPLE", "MEDIUM", "COMPLEX", "EPIC"]
    decision: NonEmpty
    rationale: str
    falsifier: str
    event: Positive
    by: Literal["pm", "techlead", "gatekeeper", "publisher"] | None = None
    id: NonEmpty | None = None
    supersedes: NonEmpty | None = None


class DecisionsLog(Document):
    run_id: RunId
    decisions: tuple[Decision, ...]


class GradedIssue(Document):
    """``major`` keeps the change from landing, ``minor`` does not."""

    grade: Literal["major", "minor"]
    code: NonEmpty
    message: str
    path: str | None = None
    line: Positive | None = None


class CheckerVerdict(Document):
    """What the reviewer said of the round that was refused, in the form of OmegaOS. ``confidence`` is null: none is told."""

    decision: Literal["PASS", "FAIL"]
    issues: tuple[GradedIssue, ...]
    feedback: str
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "confidence")


class RevisionPacket(Document):
    """A repair that was ordered: why, by whose finding, within which paths. It widens nothing and accepts nothing."""

    run_id: RunId
    attempt: Attempt
    ordered_at: Timestamp
    reason: NonEmpty
    source: Literal["diff", "reviewer", "tests", "people"]
    objective: NonEmpty
    findings: tuple[Violation, ...]
    tasks: tuple[NonEmpty, ...]
    allowed_paths: tuple[NonEmpty, ...]
    evidence_refs: tuple[str, ...]
    #: The event that ordered it.
    event: Positive
    #: The votes on what was refused, of every colour: none of them counts for what comes next.
    void_votes: tuple[VoidVote, ...] = ()
    #: Of a round that the reviewer refused: its verdict, with graded findings.
    checker: CheckerVerdict | None = None


class RepairResponse(Document):
    task_id: NonEmpty
    agent: str
    accepted: bool


class RevisionItem(Document):
    """A packet and what came of it. Evidence from before the repair says nothing about what came after it."""

    packet: RevisionPacket
    state: Literal["active", "cured", "not_cured", "abandoned"]
    responses: tuple[RepairResponse, ...]
    #: Verdicts on the repaired candidate; null where it was not judged again.
    review: Literal["PASS", "FAIL", "BLOCKED"] | None = None
    tests: Literal["PASS", "FAIL", "ERROR", "SKIPPED"] | None = None


class RevisionTrail(Document):
    run_id: RunId
    items: tuple[RevisionItem, ...]


class ProvenanceOutput(Document):
    """A file that a task handed over. ``pii`` is null where it was not looked for; ``basis`` says what the class rests on."""

    path: NonEmpty
    sha256: Sha256
    size: Count
    classification: Literal["public", "internal", "restricted"]
    basis: NonEmpty
    pii: bool | None = None


class ProvenanceTask(Document):
    """Where and how the files of one task were made."""

    task_id: NonEmpty
    agent: str
    started_at: str
    finished_at: str
    commands: tuple[tuple[str, ...], ...]
    egress_used: Literal["none", "pull-only"]
    outputs: tuple[ProvenanceOutput, ...]
    image_digest: str | None = None
    environment: str | None = None
    sandbox: str | None = None


class ProvenanceManifest(Document):
    run_id: RunId
    baseline_commit: str
    policy_sha256: str
    tasks: tuple[ProvenanceTask, ...]
