"""A run in documents of other systems: OmegaOS' brief, done and blocked, decisions, TheHood's revisions, CHORUS' provenance.

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
    """Path of the repository."""
    stack: str
    """Technologies of the project, as far as known."""
    prior_runs: tuple[str, ...]
    """Runs or tasks that this one continues."""
    deployed_url: str | None = None
    """Where it is deployed, if it is."""


class BriefScope(Document):
    files_owned: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """The files and directories that may be changed, a hard boundary."""


class BriefSpec(Document):
    scope: BriefScope
    """What may be changed."""


class Brief(Document):
    """The order to the agent that does the work: mission, boundary and the command that proves it (OmegaOS, brief)."""

    id: NonEmpty
    """Id of the brief: the task's own."""
    mission: Annotated[str, Meta(min_length=1, max_length=200)]
    """The goal in one or two lines."""
    purpose: str
    """Why it matters: what the person asked for."""
    context: BriefContext
    """What surrounds the task."""
    whats_done: tuple[str, ...]
    """What was done before in this mission."""
    current_task: str
    """What is to be done now."""
    done_criteria: NonEmpty
    """The condition, which can be measured."""
    verify_command: NonEmpty
    """The exact command that proves it; no prose."""
    key_decisions: tuple[str, ...]
    """Decisions that matter to the task."""
    spec: BriefSpec
    """The order itself."""
    relevant_memories: tuple[str, ...]
    """Ids of lessons that were chosen for it."""
    ship: bool
    """Whether the result has to land on a branch that others use."""
    audit_gates: tuple[NonEmpty, ...]
    """Gates that must pass before it is done."""
    lifecycle: Literal["ephemeral", "persistent"]
    """Whether the receiver ends with the task."""


class DoneEvidence(Document):
    """The command that proves the work, and its output."""

    verify_command: str
    """The command that was run to prove the work."""
    verify_exit_code: int | None
    """Its exit code; null if nothing was run."""
    verify_stdout: str
    """Its standard output, or where that is kept."""
    verify_stderr: str
    """Where its standard error is kept, or why nothing was run."""
    artefacts: tuple[str, ...]
    """Other evidence, by path inside the bundle."""


class DoneAudit(Document):
    gates_required: tuple[NonEmpty, ...]
    """Gates that had to pass."""
    gates_passed: tuple[NonEmpty, ...]
    """Gates that did."""
    scores: dict[str, Count]
    """Score of each gate that gives one, by name."""
    verdict: Literal["satisfied", "partial", "unsatisfied"]
    """The verdict over all gates."""


class DoneShip(Document):
    requested: bool
    """Whether landing was asked for."""
    result: Literal["ok", "failed", "skipped", "frozen"]
    """How the landing ended."""
    commit: str | None = None
    """The landed commit."""
    deploy_url: str | None = None
    """Where it was deployed."""
    deploy_status: Literal["READY", "ERROR", "TIMEOUT"] | None = None
    """State that the deployment reports."""


class Done(Document):
    """How work ended, with the evidence (OmegaOS, done).

    ``work_documents.done.check`` refuses combinations of fields that would be lies.
    """

    agent: NonEmpty
    """The agent that did it."""
    project: NonEmpty
    """What it was done to."""
    status: Literal["done_clean", "pending", "failed"]
    """done_clean: proved; pending: this part is proved, more is left to do; failed: not proved."""
    started_at: Timestamp
    finished_at: Timestamp
    duration_sec: Seconds
    """Seconds that it took."""
    mission: NonEmpty
    """The mission of the brief."""
    evidence: DoneEvidence
    """What proves it."""
    audit: DoneAudit
    """The verdicts of the gates."""
    regressions: tuple[str, ...]
    """What worked before and no longer does."""
    pending_actions: tuple[str, ...]
    """What is left to do."""
    ship: DoneShip
    """Whether it landed."""
    report_path: str
    """Path of the report inside the bundle."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "duration_sec")


class Decision(Document):
    """A decision of the run, and the check that would prove it wrong."""

    at: Timestamp
    title: NonEmpty
    """The decision in a few words."""
    task: str
    """The question."""
    classification: Literal["SIMPLE", "MEDIUM", "COMPLEX", "EPIC"]
    """Size of the task, by the shards and rounds that it took."""
    decision: NonEmpty
    """What was chosen."""
    rationale: str
    """Why it was chosen."""
    falsifier: str
    """The check that would prove it wrong."""
    event: Positive
    """Number of the event that records it."""
    by: Literal["pm", "techlead", "gatekeeper", "publisher"] | None = None
    """The role that decided; older logs leave it out."""
    id: NonEmpty | None = None
    """Permanent id: the run's id, .d and the number of its event. Older logs have none."""
    supersedes: NonEmpty | None = None
    """Id of the earlier decision that it replaces. That one stays as it was written."""


class DecisionsLog(Document):
    """What was decided in a run, why, and what would prove it wrong (OmegaOS, decisions log)."""

    run_id: RunId
    decisions: tuple[Decision, ...]
    """Every decision, the oldest first; never edited."""


class GradedIssue(Document):
    """One finding of the checker, graded."""

    grade: Literal["major", "minor"]
    """major keeps the change from landing, minor does not."""
    code: NonEmpty
    """Code of the finding."""
    message: str
    """A text for people."""
    path: str | None = None
    """The file."""
    line: Positive | None = None
    """Its line."""


class CheckerVerdict(Document):
    """The reviewer's verdict on the round that was refused, in the form of OmegaOS."""

    decision: Literal["PASS", "FAIL"]
    """Whether it let the change pass."""
    issues: tuple[GradedIssue, ...]
    """What it found."""
    feedback: str
    """The verdict in words."""
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    """How sure it is; null if it did not state that."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "confidence")


class RevisionPacket(Document):
    """A repair that was ordered after a refusal that can be cured. It widens nothing and accepts nothing (TheHood)."""

    run_id: RunId
    attempt: Attempt
    """The round that was ordered."""
    ordered_at: Timestamp
    """When the repair was ordered."""
    reason: NonEmpty
    """Stable reason code of the gate that refused."""
    source: Literal["diff", "reviewer", "tests", "people"]
    """Whose finding it answers."""
    objective: NonEmpty
    """The repair in one line. It widens nothing."""
    findings: tuple[Violation, ...]
    """What was found."""
    tasks: tuple[NonEmpty, ...]
    """The tasks that carry out the repair."""
    allowed_paths: tuple[NonEmpty, ...]
    """The paths that the repair may touch: those of the contract."""
    evidence_refs: tuple[str, ...]
    """Artifacts that the repair is shown."""
    event: Positive
    """Number of the event that ordered it."""
    void_votes: tuple[VoidVote, ...] = ()
    """The votes on the refused change, of every colour. They do not count for the next one."""
    checker: CheckerVerdict | None = None
    """For a round that the reviewer refused: its verdict (OmegaOS, LMC)."""


class RepairResponse(Document):
    task_id: NonEmpty
    """The repair task."""
    agent: str
    """The agent that did it."""
    accepted: bool
    """Whether the diff gate let it pass."""


class RevisionItem(Document):
    """A repair and its outcome. Evidence from before the repair does not count after it."""

    packet: RevisionPacket
    """What was ordered."""
    state: Literal["active", "cured", "not_cured", "abandoned"]
    """active while it is in progress; abandoned if the run ended before it was judged."""
    responses: tuple[RepairResponse, ...]
    """What the workers delivered."""
    review: Literal["PASS", "FAIL", "BLOCKED"] | None = None
    """The review's verdict on the repaired candidate; null if it was not judged again."""
    tests: Literal["PASS", "FAIL", "ERROR", "SKIPPED"] | None = None
    """How its tests ended; null if they did not run again."""


class RevisionTrail(Document):
    """Every repair of a run and its outcome; evidence from before a repair does not count after it (TheHood)."""

    run_id: RunId
    items: tuple[RevisionItem, ...]
    """One item per repair, in order."""


class ProvenanceOutput(Document):
    """A file that a task delivered."""

    path: NonEmpty
    """Path inside the bundle."""
    sha256: Sha256
    size: Count
    """Bytes."""
    classification: Literal["public", "internal", "restricted"]
    """Who may see it."""
    basis: NonEmpty
    """What the class rests on."""
    pii: bool | None = None
    """Whether it holds personal data; null: not examined."""


class ProvenanceTask(Document):
    """Where and how the files of one task were made."""

    task_id: NonEmpty
    """Id of the task."""
    agent: str
    """The agent that did it."""
    started_at: str
    """When it began; empty: not recorded."""
    finished_at: str
    """When it ended; empty: not recorded."""
    commands: tuple[tuple[str, ...], ...]
    """Every argv that was run, as far as it is recorded."""
    egress_used: Literal["none", "pull-only"]
    """pull-only: an installer made the environment by requests to registries before the task. Commands have no network."""
    outputs: tuple[ProvenanceOutput, ...]
    """The files."""
    image_digest: str | None = None
    """Digest of the image whose programs commands saw; null: those of the host."""
    environment: str | None = None
    """Prefix that commands saw."""
    sandbox: str | None = None
    """What contained the commands."""
    sandbox_facts: dict[str, str] | None = None
    """Version, account and limits of the sandbox, and what its probe found."""
    variables: tuple[NonEmpty, ...] | None = None
    """Names of the variables that commands see, none of the service is among them."""


class ProvenanceManifest(Document):
    """Every file that tasks delivered, with digest, class and how it was made (CHORUS, rules F.5 and S)."""

    run_id: RunId
    baseline_commit: str
    """The commit that the work began from."""
    policy_sha256: str
    """Digest of the policies in force."""
    tasks: tuple[ProvenanceTask, ...]
    """One entry for each task that delivered something."""
