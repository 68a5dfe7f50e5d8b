"""What roles and gates report. A report is a claim; only the gatekeeper's gate reports decide (specification 6.2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from gatewright.contracts.consultation import MOST_BLOCKED, MOST_REFUSED, Blocked, Consultation, RefusedQuestion
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.vocabulary import (
    END,
    Agent,
    Artifact,
    Attempt,
    Count,
    Document,
    NonEmpty,
    ObjectId,
    Positive,
    RunId,
    Seconds,
    Surroundings,
    Timestamp,
    Usage,
    keep_one_spelling,
)
from gatewright.reasons import Family

#: An artifact of the object store.
StoredUri = Annotated[str, Meta(pattern=rf"^artifact:sha256:[0-9a-fA-F]{{64}}{END}")]


class GateOutcome(Document):
    passed: bool
    violations: tuple[str, ...]


class GateOutcomes(Document):
    diff_gate: GateOutcome
    policy_gate: GateOutcome
    review_gate: GateOutcome
    tests_gate: GateOutcome


class GitOutcome(Document):
    """``head_ref`` is the tree (or landed commit) that came out; ``patch`` an artifact URI, or empty for no change."""

    baseline_ref: str
    head_ref: str
    changed_files: tuple[str, ...]
    patch: str


class NextSteps(Document):
    suggested_action: str
    notes: str


#: Paths of files that a result names as left out.
MOST_LEFT_OUT = 10


class LeftOut(Document):
    """New files of tools that are not part of the change: how many, and the paths of the first of them."""

    files: Annotated[int, Meta(ge=1)]
    paths: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_LEFT_OUT)]


class TaskResult(Document):
    run_id: RunId
    task_id: NonEmpty
    producer: Agent
    status: Literal["SUCCESS", "FAILED", "BLOCKED", "SKIPPED"]
    started_at: Timestamp
    finished_at: Timestamp
    summary: str
    artifacts: tuple[Artifact, ...]
    git: GitOutcome
    gates: GateOutcomes
    next_steps: NextSteps
    attempt: Attempt = 1
    #: ``code: message`` of what went wrong, for a status other than SUCCESS.
    failure: str | None = None
    surroundings: Surroundings | None = None
    usage: Usage | None = None
    #: What it could not tell, and has guessed.
    blocked: Annotated[tuple[Blocked, ...], Meta(max_length=MOST_BLOCKED)] = ()
    questions_refused: Annotated[tuple[RefusedQuestion, ...], Meta(max_length=MOST_REFUSED)] = ()
    left_out: LeftOut | None = None


class WorkReport(Document):
    task_id: NonEmpty
    status: Literal["success", "fail", "aborted"]
    patch_ref: str
    diff_summary: str
    evidence_refs: tuple[str, ...]
    failure_reason: str | None = None
    usage: Usage | None = None


class ScopeCheck(Document):
    passed: bool
    violations: tuple[str, ...]


class Finding(Document):
    """One observation of the reviewer; a blocking one fails the review."""

    code: NonEmpty
    message: str
    blocking: bool
    path: str | None = None
    line: Positive | None = None


class ReviewReport(Document):
    run_id: RunId
    reviewer: Agent
    reviewed_at: Timestamp
    verdict: Literal["PASS", "FAIL", "BLOCKED"]
    summary: str
    scope_check: ScopeCheck
    evidence: tuple[str, ...]
    #: Must be false; a reviewer that produced a diff is a fault of the system.
    produced_diff: Literal[False] = False
    task_id: str | None = None
    #: The candidate tree that the reviewer rebuilt and looked at.
    tree: ObjectId | None = None
    findings: tuple[Finding, ...] = ()
    surroundings: Surroundings | None = None
    consultation: Consultation | None = None


#: The first hundred of some names, sorted.
Names = tuple[NonEmpty, ...]


#: The limit that ended a command; empty when it ended by itself.
Limit = Literal["", "time", "output", "memory", "processes", "disk"]


class TestCounts(Document):
    """Tests by outcome; one that is expected to fail, and does, counts as skipped."""

    __test__ = False

    passed: Count
    failed: Count
    skipped: Count


class TestControl(Document):
    """Two planted tests, one that must fail and one that must pass; outcomes are empty where nothing was told."""

    __test__ = False

    failing: NonEmpty
    passing: NonEmpty
    exit_code: int
    failing_outcome: str
    passing_outcome: str


class CheckControl(Document):
    """A tool that checks sources, run with an error at the end of a changed file: whether it failed and named that file.

    ``switched_off`` are changed files that silence the tool for all of the file.
    """

    tool: NonEmpty
    path: NonEmpty
    exit_code: int
    noticed: bool
    switched_off: Names = ()


class BaselineTests(Document):
    """The command once more, on the candidate with the baseline's versions of the ``paths`` that decide what is tested."""

    paths: Names
    exit_code: int
    #: Every start of the framework told its end; or the command failed by itself before it could load a test.
    complete: bool
    #: None when no test could be loaded.
    counts: TestCounts | None = None
    failed: Names = ()
    #: Tests that were collected, and had no turn.
    unrun_count: Count = 0
    #: Files of tests that were changed while it ran.
    rewritten: Names = ()
    stopped: Limit = ""


class Mutant(Document):
    """One small change of a written line (``line`` and ``column`` from 1) and whether the tests noticed it.

    ``invalid``: no test could be run with it, so that nothing is known.
    """

    path: NonEmpty
    line: Positive
    column: Positive
    before: str
    after: str
    outcome: Literal["killed", "timed_out", "survived", "invalid"]
    #: How many tests were picked, because they run the line; None: all that the command runs.
    tests: Count | None = None


class MutationSample(Document):
    """Mutants of what the change has written, in the order of the draw, each tried in an overlay of its own."""

    #: What the order follows from: hexadecimal.
    seed: NonEmpty
    #: Mutants that the written lines have.
    possible: Count
    tried: Count
    #: Every one that was tried.
    mutants: tuple[Mutant, ...]
    seconds: Seconds
    #: Whether the time was over before all that were drawn had been tried.
    out_of_time: bool = False
    #: Why nothing could be told, in words.
    unproven: str = ""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "seconds")


class TestProof(Document):
    """What shows that tests ran, and could have failed. ``framework`` is empty when none was recognised."""

    __test__ = False

    framework: str
    version: str = ""
    #: Why nothing could be shown, in words.
    unproven: str = ""
    #: Every start of the framework told its end, and nothing was told without the token of this run.
    complete: bool = False
    counts: TestCounts | None = None
    collected_before: Count | None = None
    lost_count: Count = 0
    lost: Names = ()
    new_count: Count = 0
    newly_skipped: Names = ()
    duplicates: Names = ()
    control: TestControl | None = None
    #: None when the change touches nothing that decides what is tested.
    baseline_tests: BaselineTests | None = None
    #: For a command that failed: how it ended on the baseline, where of its tests only those that failed were run, and which of
    #: these failed there too.
    exit_before: int | None = None
    failed_before: Names = ()
    #: Files of tests that were changed while the commands ran.
    rewritten: Names = ()
    #: Functions of the runner in whose place others were, or outcomes that were changed: ``path::what``; no path: not known.
    patched: Names = ()
    untouched: Names = ()
    #: ``name -> place`` of modules that the candidate has and that came from elsewhere.
    shadowed: Names = ()
    #: None where the contract asks for none, or the command did not get that far.
    mutation: MutationSample | None = None
    #: None for what is no such tool, or where the change has no file for it.
    check: CheckControl | None = None
    #: Artifact URI of each test with its outcome.
    table: str = ""


class TestCommand(Document):
    """One acceptance command as it ran; ``stdout`` and ``stderr`` are artifact URIs. ``run`` 2: again, after a failure."""

    __test__ = False

    name: NonEmpty
    cmd_argv: tuple[str, ...]
    must_pass: bool
    timeout_sec: Seconds
    exit_code: int
    duration_sec: Seconds
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False
    #: The limit that ended it; empty when it ended by itself.
    stopped: Limit = ""
    run: Annotated[int, Meta(ge=1, le=2)] = 1
    proof: TestProof | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec", "duration_sec", "stopped")


class TestSummary(Document):
    __test__ = False

    passed: Count
    failed: Count
    skipped: Count


class TestReport(Document):
    __test__ = False

    run_id: RunId
    task_id: NonEmpty
    runner: Agent
    started_at: Timestamp
    finished_at: Timestamp
    status: Literal["PASS", "FAIL", "ERROR", "SKIPPED"]
    commands: tuple[TestCommand, ...]
    artifacts: tuple[Artifact, ...]
    summary: TestSummary | None = None
    #: The candidate tree that the test runner rebuilt and tested.
    tree: ObjectId | None = None
    #: What contained the commands: ``bubblewrap``, or ``none`` where the operator's policy says so.
    sandbox: str | None = None
    failure: str | None = None
    surroundings: Surroundings | None = None


class Plan(Document):
    """The tech lead's split. ``batches`` are dispatched one after another, the tasks of one batch together."""

    run_id: RunId
    task_id: NonEmpty
    producer: Agent
    created_at: Timestamp
    contracts: Annotated[tuple[TaskContract, ...], Meta(min_length=1)]
    batches: Annotated[tuple[Annotated[tuple[NonEmpty, ...], Meta(min_length=1)], ...], Meta(min_length=1)]
    surroundings: Surroundings | None = None
    consultation: Consultation | None = None


GateName = Literal["schema", "policy", "plan", "locks", "diff", "integrated", "reviewer", "tests", "approval", "landing"]


class Violation(Document):
    """One broken rule. ``rule`` names the policy file entry or built-in rule that decided."""

    code: NonEmpty
    rule: NonEmpty
    detail: str
    path: str | None = None


class Evidence(Document):
    """Something a gate looked at: a name and the id or digest that fixes it."""

    name: NonEmpty
    digest: str


class RuleOutcome(Document):
    """One rule that a gate applied, in the order in which it did; ``detail`` says what decided, in words."""

    rule: NonEmpty
    verdict: Literal["PASS", "FAIL"]
    detail: str = ""


class Remark(Document):
    """An observation that blocks nothing. ``rule`` names an applied rule; ``line`` is on the new side of ``path``."""

    rule: NonEmpty
    message: NonEmpty
    path: str | None = None
    line: Positive | None = None


#: More violations than this are counted, not listed: a hostile patch must not make the report huge.
MOST_VIOLATIONS = 100


class GateReport(Document):
    """A gate's verdict. ``code`` is ``ok`` or the stable reason of the first violation; ``rules`` are all that were applied."""

    run_id: RunId
    gate: GateName
    verdict: Literal["PASS", "FAIL"]
    code: NonEmpty
    summary: str
    violations: tuple[Violation, ...]
    evidence: tuple[Evidence, ...]
    evaluated_at: Timestamp
    task_id: str | None = None
    attempt: Attempt = 1
    duration_ms: Seconds | None = None
    rules: tuple[RuleOutcome, ...] = ()
    #: Of the reason; a report that passes has none, and one of an older version neither.
    family: Family | None = None
    #: What people should know although it blocks nothing.
    remarks: tuple[Remark, ...] = ()

    def __post_init__(self) -> None:
        keep_one_spelling(self, "duration_ms")


class EvidenceReport(Document):
    """``withheld`` are the URIs of artifacts that are left out on purpose: they hold what looks like a secret."""

    status: Literal["ok", "fail"]
    missing: tuple[str, ...]
    withheld: tuple[StoredUri, ...] = ()


class EvidenceSource(Document):
    name: NonEmpty
    uri: str
    sha256: str | None = None


class EvidenceClaim(Document):
    claim: NonEmpty
    sources: tuple[str, ...]


class EvidenceBundle(Document):
    """A searcher's findings."""

    bundle_id: NonEmpty
    created_at: Timestamp
    requested_by: NonEmpty
    query: str
    sources: tuple[EvidenceSource, ...]
    claims: tuple[EvidenceClaim, ...]
    limitations: tuple[str, ...]


class Difference(Document):
    key: NonEmpty
    expected: Any = None
    actual: Any = None


class ReexecReport(Document):
    run_id: RunId
    status: Literal["pass", "fail"]
    reexec_ts: Timestamp
    hard_equal_pass: bool
    soft_equal_pass: bool
    hard_diffs: tuple[Difference, ...]
    soft_diffs: tuple[Difference, ...]
    errors: tuple[str, ...]


class ErrorFault(Document):
    """``pointer`` is an RFC 6901 JSON pointer into the refused document."""

    pointer: str
    code: NonEmpty
    message: str


class Error(Document):
    """The answer to something that could not be accepted or done."""

    code: NonEmpty
    message: str
    faults: tuple[ErrorFault, ...] = ()
    run_id: str | None = None
    task_id: str | None = None
    #: The role that answers, where it is the answer to a task.
    role: str | None = None
    #: When to try again, where waiting is all that is needed.
    retry_after_seconds: Seconds | None = None
    #: Of the code; an answer of an older version has none.
    family: Family | None = None
    #: What a model was asked on the way, where one was.
    consultation: Consultation | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "retry_after_seconds")
