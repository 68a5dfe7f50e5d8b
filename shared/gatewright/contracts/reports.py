"""What roles and gates report. A report is a claim; only the gatekeeper's gate reports decide (specification 6.2)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from gatewright.contracts.consultation import MOST_BLOCKED, MOST_REFUSED, Blocked, Consultation, RefusedQuestion
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.vocabulary import (
    END,
    Agent,
    Artifact,
    Attempt,
    AuditLevel,
    Count,
    Document,
    InventorySummary,
    NetworkAttempts,
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
    """Whether the gate passed."""
    violations: tuple[str, ...]
    """What was found."""


class GateOutcomes(Document):
    diff_gate: GateOutcome
    """The worker's own look at this gate."""
    policy_gate: GateOutcome
    """The worker's own look at this gate."""
    review_gate: GateOutcome
    """The worker's own look at this gate."""
    tests_gate: GateOutcome
    """The worker's own look at this gate."""


class GitOutcome(Document):
    """The change that a task made, in git."""

    baseline_ref: str
    """Id of the commit that it was made from."""
    head_ref: str
    """Id of the tree that came out."""
    changed_files: tuple[str, ...]
    """Paths that differ, from the repository's root."""
    patch: str
    """Artifact URI of the patch; empty for no change."""


class NextSteps(Document):
    suggested_action: str
    """What to do next."""
    notes: str
    """Further notes."""


#: Paths of files that a result names as left out.
MOST_LEFT_OUT = 10


class LeftOut(Document):
    """New files of tools that are not part of the change."""

    files: Annotated[int, Meta(ge=1)]
    """Number of files that were left out."""
    paths: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_LEFT_OUT)]
    """Paths of the first of them."""


class TaskResult(Document):
    """What a worker reports about its task (specification 6.2).

    All of it is a claim: the gatekeeper applies the patch itself and judges the result.
    """

    run_id: RunId
    task_id: NonEmpty
    """The task that this answers."""
    producer: Agent
    """The agent that did it."""
    status: Literal["SUCCESS", "FAILED", "BLOCKED", "SKIPPED"]
    """How the task ended for the worker."""
    started_at: Timestamp
    finished_at: Timestamp
    summary: str
    """What was done, for people; never evaluated."""
    artifacts: tuple[Artifact, ...]
    """What was stored: work_report, stdout, stderr, reply."""
    git: GitOutcome
    """The change."""
    gates: GateOutcomes
    """The worker's own look at each gate. The gatekeeper judges its gates itself."""
    next_steps: NextSteps
    """Advice, for people (specification 6.2.2: never an instruction)."""
    attempt: Attempt = 1
    failure: str | None = None
    """Reason code, colon, words, for a status other than SUCCESS."""
    surroundings: Surroundings | None = None
    """What the role worked with."""
    usage: Usage | None = None
    """What the task used, as far as its executor reports it."""
    blocked: Annotated[tuple[Blocked, ...], Meta(max_length=MOST_BLOCKED)] = ()
    """Questions that it could not answer, with its guesses."""
    questions_refused: Annotated[tuple[RefusedQuestion, ...], Meta(max_length=MOST_REFUSED)] = ()
    """Questions that were put to no person, each with the reason."""
    left_out: LeftOut | None = None
    """New files of tools that are not part of the change."""
    attempts: NetworkAttempts | None = None
    """Attempts of its command or agent to reach the network; null if they were not counted."""


class WorkReport(Document):
    """A short account of a worker's task, for quick aggregation. It does not replace the task result (specification 6.2)."""

    task_id: NonEmpty
    """The task."""
    status: Literal["success", "fail", "aborted"]
    """How the task ended."""
    patch_ref: str
    """Artifact URI of the patch; empty for no change."""
    diff_summary: str
    """Files and lines changed, in words."""
    evidence_refs: tuple[str, ...]
    """Artifact URIs of what the report rests on."""
    failure_reason: str | None = None
    """Reason code, colon, words, for a status other than success; null or absent for success."""
    usage: Usage | None = None
    """What the task used, as far as its executor reports it."""


class ScopeCheck(Document):
    passed: bool
    """Whether the change stays in scope."""
    violations: tuple[str, ...]
    """Paths or reasons, if it does not."""


class Finding(Document):
    """One observation of the reviewer."""

    code: NonEmpty
    """Stable reason code."""
    message: str
    """The finding in words."""
    blocking: bool
    """Whether it alone fails the review."""
    path: str | None = None
    """The file, from the repository's root."""
    line: Positive | None = None
    """The line in the candidate's file, 1 first."""


class ReviewReport(Document):
    """A reviewer's verdict on the candidate (specification 7, S3). A reviewer only reads."""

    run_id: RunId
    reviewer: Agent
    """The agent that reviewed; never the one that implemented."""
    reviewed_at: Timestamp
    verdict: Literal["PASS", "FAIL", "BLOCKED"]
    """BLOCKED means that the review could not be made."""
    summary: str
    """The verdict in words."""
    scope_check: ScopeCheck
    """Whether the change stays where the contract allows it."""
    evidence: tuple[str, ...]
    """Artifact URIs and ids of what was looked at."""
    produced_diff: Literal[False] = False
    """Always false: a reviewer that produced a diff is a fault of the system (specification 7, S3)."""
    task_id: str | None = None
    """The review task that this answers."""
    tree: ObjectId | None = None
    """Id of the tree that the reviewer rebuilt from baseline and patch. A tree other than the gatekeeper's fails the gate."""
    findings: tuple[Finding, ...] = ()
    """The observations, one by one."""
    surroundings: Surroundings | None = None
    """What the role worked with."""
    consultation: Consultation | None = None
    """What the role asked a model, if it asked one."""


#: The first hundred of some names, sorted.
Names = tuple[NonEmpty, ...]


#: The limit that ended a command; empty when it ended by itself.
Limit = Literal["", "time", "output", "memory", "processes", "disk"]


class TestCounts(Document):
    """Tests by outcome."""

    __test__ = False

    passed: Count
    failed: Count
    skipped: Count
    """Skipped, or expected to fail."""


class TestControl(Document):
    """Two planted tests, one that must fail and one that must pass."""

    __test__ = False

    failing: NonEmpty
    """Id of the test that must fail."""
    passing: NonEmpty
    """Id of the test that must pass."""
    exit_code: int
    """Exit code of the command."""
    failing_outcome: str
    """Reported outcome of the test that must fail; empty: none."""
    passing_outcome: str
    """Reported outcome of the test that must pass; empty: none."""


class CheckControl(Document):
    """A tool that checks sources, run with an error planted at the end of a changed file."""

    tool: NonEmpty
    """The tool: ruff check, mypy, tsc, go vet or cargo clippy."""
    path: NonEmpty
    """The changed file."""
    exit_code: int
    """Exit code of the command."""
    noticed: bool
    """Whether the tool failed and named that file."""
    switched_off: Names = ()
    """Changed files in which a comment or attribute switches the tool off for the whole file; the first 100."""


class BaselineTests(Document):
    """The command run once more, on the candidate with the baseline's versions of the ``paths`` that decide what is tested."""

    paths: Names
    """Files that were restored to the baseline's version, or removed if it has none; the first 100, sorted."""
    exit_code: int
    """Exit code; a negative one is the signal that ended it."""
    complete: bool
    """Whether every start of the framework reported its end, or the command failed by itself before it could load a test."""
    counts: TestCounts | None = None
    """These tests by outcome; null if no test could be loaded."""
    failed: Names = ()
    """Tests of the baseline that fail on the candidate."""
    unrun_count: Count = 0
    """Number of tests that were collected and did not run."""
    rewritten: Names = ()
    """Test files that were changed while it ran."""
    stopped: Limit = ""
    """The limit that ended it; empty: it ended by itself."""


class RedFirst(Document):
    """The new and changed tests, on the baseline with the change's tests and runner settings alone.

    A test that passes there shows nothing about the change. The cases of a parametrised test are one test.
    """

    tests: Count = 0
    """Number of new and changed tests that pass on the candidate."""
    failed_count: Count = 0
    """Number of them that fail without the change, or cannot be loaded there."""
    passed_count: Count = 0
    """Number of them that pass without the change."""
    passed: Names = ()
    """The first 100 of these, sorted; a test with several cases is named without them."""
    unrun_count: Count = 0
    """Number of them without a result there."""
    unknown_count: Count = 0
    """Number of other tests in changed files that may have changed; they are not run."""
    stopped: Limit = ""
    """The limit that ended the run; empty: it ended by itself."""
    not_applicable: str = ""
    """Why there is nothing to try, such as a change of tests alone; empty if there was."""
    unproven: str = ""
    """Why the tests could not be tried; empty if they were."""


class Mutant(Document):
    """One small change of a written line, and whether the tests noticed it."""

    path: NonEmpty
    """The file."""
    line: Positive
    """Its line, from 1."""
    column: Positive
    """The first byte in that line, from 1."""
    before: str
    """The original text, shortened."""
    after: str
    """What replaced it."""
    outcome: Literal["killed", "timed_out", "survived", "invalid"]
    """killed: a test failed. timed_out: the tests took far longer than without it. invalid: no test could run with it, so
    nothing is known."""
    tests: Count | None = None
    """Number of tests that were selected because they run the line; null: all tests of the command."""


class MutationSample(Document):
    """Mutants of what the change has written, in the order of the draw, each tried in an overlay of its own."""

    seed: NonEmpty
    """Seed of the draw's order, in hexadecimal."""
    possible: Count
    """Number of mutants that the written lines have."""
    tried: Count
    """How many of them were tried."""
    mutants: tuple[Mutant, ...]
    """Every mutant that was tried, in the order of the draw."""
    seconds: Seconds
    """Seconds that the sample took, after the command."""
    out_of_time: bool = False
    """Whether the time ran out before all drawn mutants were tried."""
    unproven: str = ""
    """Why nothing could be proved; empty if it was proved."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "seconds")


class DifferingCall(Document):
    """A call with one result in the test runner, where the tests made it, and another outside."""

    path: NonEmpty
    """The file of the function."""
    line: Positive
    """The first line of the function."""
    function: NonEmpty
    """Its module and its qualified name."""
    arguments: str
    """The arguments, shortened."""
    under_test: str
    """The result in the test runner, shortened: what it returned or raised, and what it printed."""
    in_production: str
    """The result outside."""


class CallReplay(Document):
    """Calls of functions in changed files, recorded while the tests ran, and made again outside of the test runner."""

    functions: Count
    """Number of functions in the changed files."""
    called: Count = 0
    """Number of functions that the tests called."""
    replayed: Count = 0
    """Number of functions of which at least one call was compared."""
    calls: Count = 0
    """Number of calls that were compared: their results were the same whenever the test runner made them."""
    differ_count: Count = 0
    """Number of functions with a different result outside of the test runner."""
    differ: tuple[DifferingCall, ...] = ()
    """The first differing call of each of these functions, at most 20."""
    unserialisable: Count = 0
    """Number of calls whose arguments cannot be serialised."""
    unrepeatable: Count = 0
    """Number of calls with another result each time, or that could not be made again."""
    failed: Count = 0
    """Number of calls that fail outside alone: a file or a set-up of the tests may be missing there."""
    by_surroundings: Count = 0
    """Number of calls whose result depends on the working directory, or on data or variables of the tests."""
    unproven: str = ""
    """Why no call was compared; empty if calls were compared, or there were none."""


class UntestedPackage(Document):
    """A package with changed sources of which no test ran."""

    folder: NonEmpty
    """The folder of the package; a dot for the top."""
    files: Names
    """Its changed sources, the first 100."""
    has_tests: bool
    """Whether it has tests at all."""


class ChangedCoverage(Document):
    """What a coverage report of a command states about the lines that the change wrote. A measure and no proof."""

    file: NonEmpty
    """The report."""
    lines: Count = 0
    """Number of written lines that can be executed."""
    covered: Count = 0
    """Number of them that were executed."""
    covered_files: Names = ()
    """Files with such a line, the first 100."""
    uncovered: Names = ()
    """The first 100 spans of other lines: path, colon, line or first-last."""
    fault: str = ""
    """Why the report cannot be used; empty if it can."""


class AuditFinding(Document):
    """A finding of a tool about the candidate."""

    rule: str
    """Rule of the tool, or the name of a test."""
    level: AuditLevel
    """How serious it is."""
    message: str
    """Text of the tool, at most 500 characters."""
    path: str = ""
    """File in the repository; empty: none is named."""
    line: Count = 0
    """Line in the file; 0: none is named."""


class AuditResult(Document):
    """What a command wrote about the candidate and, on the baseline, about the code before. A measure and no proof."""

    file: NonEmpty
    """The report."""
    findings: Count = 0
    """Number of findings of the required level or above."""
    findings_before: Count | None = None
    """The same on the baseline; null if the command did not run there, as it found nothing or wrote a score."""
    new_count: Count = 0
    """Number of findings that the baseline does not have. A line number does not distinguish two findings."""
    new: tuple[AuditFinding, ...] = ()
    """The first 100 of them."""
    score: float | None = None
    """The score; null if the report has findings."""
    fault: str = ""
    """Why the report cannot be used; empty if it can."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "score")


class TestProof(Document):
    """What shows that tests ran, and could have failed."""

    __test__ = False

    framework: str
    """The test framework that was recognised; empty when none was."""
    version: str = ""
    """Version of the framework, as it reports itself."""
    unproven: str = ""
    """Why nothing could be proved; empty if it was proved."""
    complete: bool = False
    """Whether every start of the framework reported its end, and every report had the token of this run."""
    counts: TestCounts | None = None
    """The tests of the candidate by outcome."""
    failed: Names = ()
    """The first 100 that failed, sorted."""
    collected_before: Count | None = None
    """Number of tests in the baseline; null if unknown."""
    lost_count: Count = 0
    """Number of tests of the baseline that the candidate does not run."""
    lost: Names = ()
    """The first 100 of them, sorted."""
    new_count: Count = 0
    """Number of tests that only the candidate has."""
    newly_skipped: Names = ()
    """Tests that ran on the baseline and are skipped now."""
    duplicates: Names = ()
    """Test ids that were reported twice."""
    control: TestControl | None = None
    """The negative control; null if there was none."""
    baseline_tests: BaselineTests | None = None
    """The tests with the baseline's configuration; null if the change touches nothing that decides what is tested."""
    red_first: RedFirst | None = None
    """The new and changed tests without the rest of the change; null if the change touches no tests, or the command failed."""
    exit_before: int | None = None
    """For a failed command: its exit code on the baseline, where only the failed tests were run; null if it was not run
    there."""
    failed_before: Names = ()
    """Tests that failed here and on the baseline."""
    rewritten: Names = ()
    """Test files that were changed while the commands ran."""
    patched: Names = ()
    """Functions of the runner that were replaced while the tests ran, or outcomes that were altered: path of the file that does
    it (empty if unknown), two colons, what."""
    untouched: Names = ()
    """Changed source files that no test loaded."""
    untested_packages: tuple[UntestedPackage, ...] = ()
    """Packages with changed sources of which no test ran."""
    unmeasured: Names = ()
    """Endings of changed sources of which the command does not show whether tests use them."""
    coverage: ChangedCoverage | None = None
    """Coverage of the written lines; null if the contract asks for none, or the command failed."""
    audit: AuditResult | None = None
    """Findings or score; null if the contract asks for none, or the command was stopped."""
    shadowed: Names = ()
    """Modules of the candidate that were loaded from elsewhere: name, arrow, path."""
    mutation: MutationSample | None = None
    """The mutants that were tried; null if the contract asks for none, or the command did not get that far."""
    replay: CallReplay | None = None
    """The recorded calls; null if the change has no source of the tests' language, the framework records none, or the command
    failed."""
    check: CheckControl | None = None
    """The control for a tool that checks sources; null for other commands, or if the change has no file for the tool."""
    table: str = ""
    """URI of the artifact that has each test with its outcome; empty: none."""


class TestCommand(Document):
    """One run of an acceptance command."""

    __test__ = False

    name: NonEmpty
    """Name of the acceptance test."""
    cmd_argv: tuple[str, ...]
    """The command as it ran, without a shell."""
    must_pass: bool
    """Whether an exit code other than 0 fails the run."""
    timeout_sec: Seconds
    """Time limit in seconds."""
    exit_code: int
    """Exit code; a negative one is the signal that ended it."""
    duration_sec: Seconds
    """Seconds that it took."""
    stdout: str
    """Artifact URI of the standard output."""
    stderr: str
    """Artifact URI of the standard error."""
    timed_out: bool = False
    """Whether it was stopped at its time limit."""
    truncated: bool = False
    """Whether output beyond the limit was dropped."""
    stopped: Limit = ""
    """The limit that ended it; empty: it ended by itself."""
    run: Annotated[int, Meta(ge=1, le=2)] = 1
    """2: run again after a failure, as the contract's may_rerun allows. The last run decides."""
    proof: TestProof | None = None
    """What shows that tests ran, and could have failed."""
    attempts: NetworkAttempts | None = None
    """Attempts to reach the network; null if they were not counted, as without a sandbox."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec", "duration_sec", "stopped")


class TestSummary(Document):
    __test__ = False

    passed: Count
    """Number of commands that ended with exit code 0."""
    failed: Count
    """Number of commands with any other exit code, or that were stopped."""
    skipped: Count
    """Number of commands that did not run."""


class TestReport(Document):
    """How the acceptance commands ended on the candidate (specification 7, S4). Exit codes count, words do not."""

    __test__ = False

    run_id: RunId
    task_id: NonEmpty
    """The test task that this answers."""
    runner: Agent
    """The test runner."""
    started_at: Timestamp
    finished_at: Timestamp
    status: Literal["PASS", "FAIL", "ERROR", "SKIPPED"]
    """ERROR means that the commands could not be run."""
    commands: tuple[TestCommand, ...]
    """Every acceptance command of the contract, in its order; a second run of one comes right after the first."""
    artifacts: tuple[Artifact, ...]
    """What was stored."""
    summary: TestSummary | None = None
    """Number of commands by outcome."""
    tree: ObjectId | None = None
    """Id of the tree that the test runner rebuilt from baseline and patch. A tree other than the gatekeeper's fails the
    gate."""
    sandbox: str | None = None
    """What contained the commands: bubblewrap, or none where the operator's policy permits that."""
    failure: str | None = None
    """Reason code, colon, words, for a status of ERROR."""
    surroundings: Surroundings | None = None
    """What the role worked with."""

    @property
    def inventory(self) -> InventorySummary | None:
        """Figures of the environment that commands saw."""
        return self.surroundings.inventory if self.surroundings is not None else None


class Plan(Document):
    """The tech lead's split of a contract (specification 7, S1): sub-contracts whose paths are disjoint, each with no more
    permission than it needs."""

    run_id: RunId
    task_id: NonEmpty
    """The planning task that this answers."""
    producer: Agent
    """The tech lead."""
    created_at: Timestamp
    contracts: Annotated[tuple[TaskContract, ...], Meta(min_length=1)]
    """The sub-contracts; parent_task_id is the run's contract."""
    batches: Annotated[tuple[Annotated[tuple[NonEmpty, ...], Meta(min_length=1)], ...], Meta(min_length=1)]
    """Batches of task ids. They are dispatched one after another, the tasks of one batch together. Every task is in exactly one
    batch."""
    surroundings: Surroundings | None = None
    """What the role worked with."""
    consultation: Consultation | None = None
    """What the role asked a model, if it asked one."""


GateName = Literal[
    "schema",
    "policy",
    "plan",
    "locks",
    "diff",
    "citations",
    "integrated",
    "reviewer",
    "environment",
    "tests",
    "approval",
    "queue",
    "landing",
]


class Violation(Document):
    """One broken rule."""

    code: NonEmpty
    """Stable reason code."""
    rule: NonEmpty
    """The policy entry or built-in rule that decided."""
    detail: str
    """What broke the rule, in words."""
    path: str | None = None
    """The path that broke the rule, from the repository's root."""


class Evidence(Document):
    """Something that a gate looked at."""

    name: NonEmpty
    """What it is."""
    digest: str
    """The id or digest that fixes it."""


class RuleOutcome(Document):
    """One rule that a gate applied."""

    rule: NonEmpty
    """The policy entry or built-in rule."""
    verdict: Literal["PASS", "FAIL"]
    """PASS or FAIL; there is nothing in between."""
    detail: str = ""
    """A sentence with the deciding reason."""


class Remark(Document):
    """An observation that blocks nothing."""

    rule: NonEmpty
    """The applied rule that made the observation; one of rules."""
    message: NonEmpty
    """The observation, in one sentence."""
    path: str | None = None
    """The file, from the repository's root."""
    line: Positive | None = None
    """The line of the changed file, from 1."""


class PlayedTests(Document):
    """Results by test of one run of a command: tests that failed, and those that passed and failed in earlier runs."""

    cmd_argv: tuple[str, ...]
    """The command as it ran, without a shell."""
    tree: ObjectId
    """Id of the tree that was tested."""
    failed: Names = ()
    """Tests that failed."""
    passed: Names = ()
    """Tests that passed, and failed in an earlier run of the command in the repository."""
    passed_before: Names = ()
    """Tests of failed that passed on this tree in an earlier run."""
    table: str = ""
    """URI of the artifact that has each test with its outcome; empty: only these tests were run, on the baseline."""


#: More violations than this are counted, not listed: a hostile patch must not make the report huge.
MOST_VIOLATIONS = 100


class GateReport(Document):
    """A gate's verdict, by the gatekeeper alone. A gate that cannot be evaluated has failed (specification 0.3)."""

    run_id: RunId
    gate: GateName
    """Which gate."""
    verdict: Literal["PASS", "FAIL"]
    """PASS or FAIL; there is nothing in between."""
    code: NonEmpty
    """ok, or the stable reason code of the first violation."""
    summary: str
    """The verdict in words."""
    violations: tuple[Violation, ...]
    """Every broken rule."""
    evidence: tuple[Evidence, ...]
    """What the gate looked at."""
    evaluated_at: Timestamp
    task_id: str | None = None
    """The judged task, if it was one task."""
    attempt: Attempt = 1
    duration_ms: Seconds | None = None
    """Milliseconds that the judgement took."""
    rules: tuple[RuleOutcome, ...] = ()
    """Every rule that was applied, in order, broken or not."""
    family: Family | None = None
    """Family of the code, as in error.v1; left out if the gate passed, or in reports of older versions."""
    remarks: tuple[Remark, ...] = ()
    """Observations that block nothing, in the order in which they were made."""
    played: tuple[PlayedTests, ...] = ()
    """Of the tests gate: results by test, to detect flaky tests."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "duration_ms")


class EvidenceReport(Document):
    """Whether a run left all the evidence that it owes (specification 5.3)."""

    status: Literal["ok", "fail"]
    """ok when nothing is missing."""
    missing: tuple[str, ...]
    """Paths inside the bundle that should be there."""
    withheld: tuple[StoredUri, ...] = ()
    """URIs of artifacts that are left out on purpose, because they hold what looks like a secret. Each is in missing too."""


#: Characters of a quote.
MOST_QUOTE: Final = 2000


class EvidenceSource(Document):
    name: NonEmpty
    """Name by which claims refer to it."""
    uri: str
    """Where it was found."""
    sha256: str | None = None
    """SHA-256, in hex, of what was read, if it was kept."""
    text_sha256: str | None = None
    """SHA-256, in hex, of its text in UTF-8, in which quotes are found."""
    media_type: str | None = None
    """The type that it was sent with."""
    retrieved_at: Timestamp | None = None
    """When it was read."""


class EvidenceQuote(Document):
    source: NonEmpty
    """Name of the source."""
    text: Annotated[str, Meta(min_length=1, max_length=MOST_QUOTE)]
    """The quote, verbatim."""
    offset: Count
    """Number of characters (code points) before it in the source's text."""


class EvidenceClaim(Document):
    claim: NonEmpty
    """The finding."""
    sources: tuple[str, ...]
    """Names of the sources that support it."""
    quotes: Annotated[tuple[EvidenceQuote, ...], Meta(max_length=20)] = ()
    """What the sources state, word by word. The citations gate requires at least one."""


class EvidenceBundle(Document):
    """A searcher's findings: claims, and the sources that they rest on."""

    bundle_id: NonEmpty
    """Id of these findings."""
    created_at: Timestamp
    requested_by: NonEmpty
    """Who asked."""
    query: str
    """The question."""
    sources: tuple[EvidenceSource, ...]
    """What was read."""
    claims: tuple[EvidenceClaim, ...]
    """What was found."""
    limitations: tuple[str, ...]
    """What was not examined or remains open."""


class Difference(Document):
    key: NonEmpty
    """What differs."""
    expected: Any = None
    """What the first run left, any JSON value; null: nothing."""
    actual: Any = None
    """What the new run produced, any JSON value; null: nothing."""


class ReexecReport(Document):
    """A run that was executed again and compared with what it left the first time."""

    run_id: RunId
    status: Literal["pass", "fail"]
    """pass if everything that must be equal is equal."""
    reexec_ts: Timestamp
    """When the run was executed again."""
    hard_equal_pass: bool
    """Whether everything that must be equal is."""
    soft_equal_pass: bool
    """Whether everything that should be equal is."""
    hard_diffs: tuple[Difference, ...]
    """What must be equal and is not."""
    soft_diffs: tuple[Difference, ...]
    """What should be equal and is not: times, for instance."""
    errors: tuple[str, ...]
    """Why something could not be compared."""


class ErrorFault(Document):
    """One thing that is wrong with a refused document."""

    pointer: str
    """RFC 6901 JSON pointer into the refused document. A missing field is pointed at as if it were there."""
    code: NonEmpty
    """The broken rule: a JSON Schema keyword or a reason code."""
    message: str
    """The rule, in words."""


class Error(Document):
    """The answer to something that could not be accepted or done."""

    code: NonEmpty
    """Stable reason code that scripts may match on."""
    message: str
    """What is wrong, for people."""
    faults: tuple[ErrorFault, ...] = ()
    """Everything that is wrong with a refused document, at most 50 entries."""
    run_id: str | None = None
    """The run, if there is one."""
    task_id: str | None = None
    """The task, if this is the answer to one."""
    role: str | None = None
    """The role that answers, if this is the answer to a task."""
    retry_after_seconds: Seconds | None = None
    """Seconds after which to try again, if waiting is all that is needed."""
    family: Family | None = None
    """Family of the code: the document that was sent, a rule that refused, work that failed, or a resource that was
    unavailable. Older versions leave it out."""
    consultation: Consultation | None = None
    """What the role asked a model, if it asked one."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "retry_after_seconds")
