"""Building blocks that several documents share. No document of its own lives here."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any, Final, Literal, dataclass_transform, get_args

import msgspec
from msgspec import Meta

#: The largest integer that every JSON reader keeps exact (RFC 7493, section 2.2).
MAX_INTEGER = 2**53 - 1
#: The largest number that a double holds; a bigger literal would be infinite.
MAX_NUMBER = sys.float_info.max
#: Python's ``$`` also matches before a final newline, ECMA's does not; the look-ahead makes both dialects agree.
END = r"(?!\n)$"

NonEmpty = Annotated[str, Meta(min_length=1)]
Sha256 = Annotated[str, Meta(pattern=rf"^[0-9a-fA-F]{{64}}{END}")]
"""A SHA-256 digest in hex."""
ObjectId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{40}}([0-9a-f]{{24}})?{END}")]
RunId = Annotated[str, Meta(min_length=8, max_length=64, pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]*{END}")]
"""Id of the run: safe as a file name and as a token of a subject."""
#: Ids of documents may come from other systems; they are never used as file names or subjects.
DocumentId = Annotated[str, Meta(min_length=8)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Timestamp = Annotated[Time, Meta(min_length=1)]
"""RFC 3339 time in UTC. The format is not checked: a claimed time decides nothing."""
#: ``docs/`` is a directory at the root, ``README.md`` one file, ``*.md`` every file whose name ends so; nothing else is one.
PathPattern = Annotated[str, Meta(max_length=4096, pattern=rf"^([*][^*?/\\\[\]]+|[^*?/\\\[\]][^*?\\\[\]]*){END}")]
Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
"""A number of things; exact in every JSON reader (RFC 7493, section 2.2)."""
Positive = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
"""A number that counts from 1; exact in every JSON reader (RFC 7493, section 2.2)."""
#: A round of the fix loop: one more than ``max_retries`` can ask for is far below the bound.
Attempt = Annotated[int, Meta(ge=1, le=100)]
"""Round of the fix loop, 1 first."""
Seconds = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
"""Seconds; no more than a double can hold."""

RoleName = Literal[
    "PM",
    "TECH_LEAD",
    "WORKER",
    "REVIEWER",
    "TEST_RUNNER",
    "SEARCHER",
    "RESEARCHER",
    "UI_UX",
    "FRONTEND",
    "BACKEND",
    "AI",
    "SECURITY",
    "INFRA",
    "TEST",
    "OPS",
]
"""A role of the registry."""
PolicyPack = Literal["low", "medium", "high"]
#: How urgent a run is among others; it changes when its tasks are taken, never what they may do.
Priority = Literal["high", "normal", "low"]
Filesystem = Literal["read-only", "workspace-write"]
"""What may be written (specification 6.1: nothing wider exists)."""
Shell = Literal["deny", "untrusted", "on-request", "never"]
"""Which commands an agent may run without being asked about them (specification 6.1.2)."""
Network = Literal["deny", "on-request", "allow"]
"""Whether the network may be reached."""
PackagePull = Literal["deny", "on-request"]
"""Whether the packages of a changed lock may be pulled for its tests: never, or after people agreed."""
LandingMode = Literal["branch", "target", "none", "queue"]
#: Whether a candidate is reviewed and tested at the same time, or tested only after a review that passed.
Judging = Literal["together", "in_turn"]
#: What new and changed tests show: the change, without which they fail, or how the code behaves already.
TestPurpose = Literal["change", "characterisation"]
#: Kinds of change that are refused unless a contract names them; what is not in the list can never be opened.
ChangeKind = Literal[
    "binary", "executable", "mode_change", "symlink", "submodule", "gitattributes", "gitmodules", "large_file", "large_diff"
]


@dataclass_transform(frozen_default=True, kw_only_default=True)  # type checkers do not see that structs inherit "frozen"
class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of everything that crosses the bus. Fields are given by keyword.

    Optional fields are left out when they hold their default. Where a type admits ``None``, ``null`` means the same as absent.
    """


@cache
def _defaults(kind: type[Document]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def keep_one_spelling(document: Document, *names: str) -> None:
    """Let equal values give equal bytes: numbers become floats (30 is 30.0, -0.0 is 0.0), defaults the default itself.

    Encoding leaves out a default by identity, so a string that is merely equal to it would be written. Called by structs
    that have such fields, on themselves, before any other process sees them.
    """
    for name in names:
        value = getattr(document, name)
        if isinstance(value, int | float):
            msgspec.structs.force_setattr(document, name, value + 0.0)
        elif value == _defaults(type(document))[name]:
            msgspec.structs.force_setattr(document, name, _defaults(type(document))[name])


class Agent(Document):
    role: RoleName
    agent_id: str
    """Id of the agent in the agent registry."""
    codex_thread_id: str | None = None
    """Session to continue, for agents that keep one."""


class Artifact(Document):
    """A named blob."""

    name: str
    """Its name in this document; output_schema for the schema of an output (specification 6.1.3)."""
    uri: str
    """artifact:sha256:<hex> in the object store, or an RFC 2397 data: URI."""
    sha256: Sha256
    """SHA-256 of the bytes, in hex; checked on every read."""


class Interpreter(Document):
    """The prefix that commands saw, pinned by its interpreter's bytes and the names and versions of its packages."""

    prefix: NonEmpty
    """Path of the prefix on the role's host."""
    version: str
    """Version of its interpreter; empty: unknown."""
    sha256: Sha256
    """SHA-256 of its interpreter's bytes."""
    packages_sha256: Sha256
    """SHA-256 of the sorted names and versions of its packages, one per line."""


class EnvironmentState(Document):
    """What the prefix held when commands saw it."""

    prefix: NonEmpty
    """Path of the prefix on the role's host."""
    place_sha256: Sha256
    """Digest of the folder and host, the same until the host restarts. Only states with the same digest can be compared."""
    files_sha256: Sha256
    """SHA-256 of the names, kinds, sizes and times of everything in it but __pycache__."""


class NetworkAttempts(Document):
    """Attempts of a command to reach addresses outside of its box, which has no network, counted by the kernel."""

    ipv4: Count
    """IPv4 attempts. A lookup of a name is one or more of them."""
    ipv6: Count
    """IPv6 attempts."""


class InventorySummary(Document):
    """The figures of an inventory."""

    sha256: Sha256
    """Digest of the inventory."""
    environment: NonEmpty
    """Ecosystems with the versions of their interpreters."""
    packages: Count
    """Number of packages."""
    unknown_files: Count
    """Number of files that no record lists."""
    altered_files: Count
    """Number of files that differ from their record."""
    faults: Count
    """Number of reasons why something was not measured."""
    requests: Count = 0
    """Number of requests to registries by which the environments were made."""


class Surroundings(Document):
    """What a role worked with, in its own words: a claim, kept for people who want to repeat the work."""

    versions: dict[str, str]
    """Version of each program, by name."""
    host: dict[str, str]
    """System, kernel release, processor."""
    sandbox: dict[str, str] | None = None
    """What the sandbox did when it was probed, fact by fact; left out by a role that runs no commands."""
    interpreter: Interpreter | None = None
    """The prefix that commands saw."""
    environment: EnvironmentState | None = None
    """What the prefix held when commands saw it; left out for a prefix of the system."""
    image: NonEmpty | None = None
    """Image whose programs commands saw instead of the host's: a name with a digest."""
    fixed: dict[str, str] | None = None
    """Variables that every command sees with exactly this value: clock of builds, locale, time zone, seed."""
    variables: tuple[NonEmpty, ...] | None = None
    """Names of all variables that a command sees, sorted; agents and recognised test frameworks get their own besides."""
    inventory: InventorySummary | None = None
    """Figures of the artifact environment_inventory."""


class Repository(Document):
    """Where the change belongs."""

    url: NonEmpty
    """What git fetches: a path, or a file:, https: or ssh: URL."""
    target_ref: str | None = None
    """Full name of the ref to land on, refs/heads/main for instance."""
    landing: LandingMode = "branch"
    """Where a proven change goes: a branch of its own, target_ref, nowhere, or target_ref through its merge queue."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "landing")

    @property
    def moves_target(self) -> bool:
        """Whether the change goes to target_ref, by itself or through its merge queue."""
        return self.landing in {"target", "queue"}


#: Line ends, controls and marks that turn text around: in a name they would forge a header of the commit, or what is read.
NOT_IN_NAMES = r"\u0000-\u001f\u007f-\u009f<>\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
#: git drops these from the ends of a name, and refuses a name that is nothing else.
_NOT_ALONE = r""".,:;"'\\"""
# No two neighbours of these patterns share a character: a reader that goes back for another way finds none, at any length.


class Person(Document):
    """The author of a change, as git writes it into a commit. A claim of the publisher, for the record."""

    name: Annotated[
        str, Meta(max_length=200, pattern=rf"^[ {_NOT_ALONE}]*[^ {NOT_IN_NAMES}{_NOT_ALONE}][^{NOT_IN_NAMES}]*{END}")
    ]
    """One line without angle brackets, as git takes it."""
    email: Annotated[
        str, Meta(max_length=254, pattern=rf"^[{_NOT_ALONE}]*[^\s{NOT_IN_NAMES}{_NOT_ALONE}][^\s{NOT_IN_NAMES}]*{END}")
    ]
    """One address without blanks and angle brackets."""


#: Every name by which one person is known where a run was ordered: an account, a mail address.
OrderedBy = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=320)], ...], Meta(max_length=8)]

#: People whose commits one patch may be made of.
MOST_AUTHORS = 100


#: The refs under which coding hosts keep the head of a pull request or merge request in its target repository.
RequestRef = Annotated[str, Meta(pattern=rf"^refs/(pull|merge-requests)/[1-9][0-9]{{0,9}}/head{END}")]


class SourceBranch(Document):
    """The branch that a patch was taken from. Without ref, it is a claim of the publisher: the patch is what is judged.

    With ref, the integrated gate requires that the change is that of head, as the repository has it.
    """

    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Name of the branch."""
    head: ObjectId
    """The commit that the branch was at."""
    base: ObjectId
    """The commit where the branch left the baseline. The patch leads from there to head."""
    commits: Positive
    """Number of commits that the patch is made of."""
    authors: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=600)], ...], Meta(max_length=MOST_AUTHORS)] = ()
    """Everyone who made one of these commits, as "Name <address>". None of them approves the run."""
    ref: RequestRef | None = None
    """The ref of a pull request or merge request in the repository, which must be at head when the change is judged."""


class RevertedRun(Document):
    """The landed change that an order reverts. The integrated gate refuses every change that is not its inverse."""

    run_id: RunId
    """The run that landed it."""
    commit: ObjectId
    """The commit that the run landed. The baseline must contain it."""


#: What ``agents.json`` calls an agent or a tool server, and a tool of one, as parts of regular expressions.
PROGRAM_NAME = "[a-z0-9][a-z0-9-]{0,31}"
TOOL_NAME = "[A-Za-z0-9_-]{1,64}"
#: What ``agents.json`` and ``models.json`` call an agent and a model.
AgentName = Annotated[str, Meta(pattern=rf"^{PROGRAM_NAME}{END}")]
ModelName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._:/-]{{0,127}}{END}")]


#: What each kind needs: ``gatewright.executor_kinds``.
ExecutorName = Literal["command", "patch", "reply", "agent", "model"]


class Executor(Document):
    """How the worker makes the change."""

    kind: ExecutorName
    """Run a command, apply a given patch, take the files out of a recorded reply, let a coding agent work, or ask a model for a
    reply. Agents and models are asked again for each attempt."""
    commands: tuple[NonEmpty, ...] = ()
    """For command: one argv string per attempt. {paths} is replaced by the paths of the shard."""
    artifacts: tuple[NonEmpty, ...] = ()
    """For patch and reply: names of inputs.artifacts, one per attempt."""
    agent: AgentName | None = None
    """For agent: its name in the operator's agents.json; by default the first available one."""
    model: ModelName | None = None
    """For agent and model: a name in the operator's models.json; by default the worker's first."""
    fallback: bool = False
    """With model: whether the models after it in its route in models.json may answer if it cannot. Without model they may."""

    @property
    def falls_back(self) -> bool:
        """Whether other models of the route may answer instead of the first one."""
        return self.fallback or self.model is None


#: Who makes the change where several do, each for itself, and the best of them lands.
Candidates = Annotated[tuple[Executor, ...], Meta(min_length=2, max_length=8)]
CandidateNumber = Annotated[int, Meta(ge=1, le=8)]


class Sharding(Document):
    """Into how many disjoint parts the tech lead may split the work."""

    count: Annotated[int, Meta(ge=1, le=64)] = 1
    """Maximum number of parts; 1 passes the contract through."""


class FurtherEnvironment(Document):
    """Another prefix that commands see beside the first one."""

    prefix: NonEmpty
    """The prefix, as in environment."""
    at: NonEmpty | None = None
    """Path in the repository where the folder is shown, node_modules for instance; by default it is shown at its own path. The
    repository must not track anything there."""


class Environment(Document):
    """A prefix, such as a virtual environment, that commands see read-only."""

    prefix: NonEmpty
    """The prefix. The role's own settings must list it."""
    at: NonEmpty | None = None
    """Path in the repository where the folder is shown, node_modules for instance; by default it is shown at its own path. The
    repository must not track anything there."""
    others: tuple[FurtherEnvironment, ...] = ()
    """Further prefixes that commands see as well. Programs of the first prefix take precedence."""

    @property
    def all(self) -> tuple[FurtherEnvironment, ...]:
        """This one, and the others."""
        return (FurtherEnvironment(prefix=self.prefix, at=self.at), *self.others)

    @property
    def prefixes(self) -> str:
        """All of them, for people and for records."""
        return ", ".join(each.prefix for each in self.all)


Language = Literal["python", "node", "go", "rust", "java", "cpp"]
#: By what a profile was chosen: the request's field, the model's name, the repository's name, or the words of the request.
ProfileReason = Literal["language", "model", "repository", "request"]


class EnvironmentProfile(Document):
    """The operator's profile for the language of a run, from ``environments.json``."""

    language: Language
    """The language of the profile."""
    chosen_by: ProfileReason
    """How the language was determined: by the field, the model's name, the repository's name, or the words of the request."""
    prefix: NonEmpty | None = None
    """The prefix that commands see read-only."""
    image: NonEmpty | None = None
    """An image: a name with a digest."""
    tools: tuple[NonEmpty, ...] = ()
    """Programs that commands of the language need."""


#: Without a statement: maximum number of lost files, and maximum size of a lost directory.
MOST_LOST: Final = 20
LARGEST_DIRECTORY: Final = 5


class BlastRadius(Document):
    """What a destructive operation touches and cannot undo. The change is checked against the figures."""

    summary: NonEmpty
    """A summary of one line, for people."""
    paths: tuple[NonEmpty, ...]
    """Files, or directories with everything below, whose content may be lost."""
    max_deletions: Count
    """The maximum number of files whose content may be lost."""


class DestructiveStatement(Document):
    """What has to be known before a destructive operation."""

    operation: NonEmpty
    """The entry of destructive that this is about."""
    dry_run: NonEmpty
    """Name of the input artifact that holds the captured output of a dry run."""
    blast_radius: BlastRadius
    """What it touches and cannot undo."""
    backup: NonEmpty
    """Where the backup is: a tag, a snapshot or a dump."""


class Scope(Document):
    """What is allowed beyond plain edits inside ``allowed_paths``."""

    allow_dependency_change: bool = False
    """Manifests and lock files may change."""
    allow_protected_paths: tuple[NonEmpty, ...] = ()
    """Protected paths that may change, where the policy lets a contract allow that."""
    allow: tuple[ChangeKind, ...] = ()
    """Kinds of change that the diff gate refuses unless they are named here (specification 8, mechanism 1). A symbolic link
    must stay inside the repository even then."""
    destructive: tuple[NonEmpty, ...] = ()
    """Destructive operations that the order asks for, one by one: a command word for word, or delete files."""
    destructive_statements: tuple[DestructiveStatement, ...] = ()
    """For each destructive operation, what has to be known before it is done. Without it, the order is refused."""


class Budget(Document):
    """What a run may use up; a field that is missing sets no limit. The bounds keep sums and dates made of them finite."""

    wall_sec: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Seconds from acceptance to the end of the run, waiting included."""
    tokens: Count | None = None
    """Tokens of all models together."""
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    """US dollars."""
    iterations: Positive | None = None
    """Rounds of the fix loop; where an executor counts turns, those turns."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "wall_sec", "cost_usd")


class CommandLimits(Document):
    """What one command of a run may use; a field that is missing leaves it to the policy pack and the process."""

    cpu_sec: Annotated[float, Meta(ge=1, le=1e6)] | None = None
    """Processor seconds of each process."""
    memory_bytes: Annotated[int, Meta(ge=1 << 26, le=MAX_INTEGER)] | None = None
    """Bytes of private writable memory of one process, and of all together."""
    processes: Annotated[int, Meta(ge=8, le=1 << 20)] | None = None
    """Processes and threads."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cpu_sec")


class MutationBounds(Document):
    """How many mutants of a change are tried against its tests, and for how long."""

    time_share: Annotated[float, Meta(ge=0, le=1)]
    """Share of the seconds that the tests took."""
    least_seconds: Annotated[float, Meta(ge=0, le=600)]
    """Minimum time in seconds."""
    most_mutants: Annotated[int, Meta(ge=1, le=200)]
    """Maximum number of mutants that are tried."""
    must_kill: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Share of mutants that the tests must notice; null: the report only lists those that they missed."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "time_share", "least_seconds", "must_kill")


class Usage(Document):
    """What one delivery of a task has used in all so far."""

    tokens: Count
    """Tokens of all models together."""
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)]
    """US dollars."""
    iterations: Count
    """Turns of an agent."""
    delivery: Annotated[str, Meta(pattern=rf"^[0-9.]{{1,64}}{END}")]
    """The delivery of the task that used it: a number that no other delivery of the task has."""
    sent_bytes: Count = 0
    """Bytes that were sent to providers of models under a transfer permission, failed attempts included."""
    unpriced: bool = False
    """Whether a model without a known price was asked. Its cost is missing from cost_usd."""
    incomplete: bool = False
    """Whether a call was sent whose usage is not fully known, because its reply was cut off or never came. tokens and cost_usd
    are then lower bounds."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd")


CoverageFormat = Literal["cobertura", "lcov", "go", "coverage_json"]
#: A path from the repository's root, without ``..``.
_FILE_INSIDE = r"\.?[^./\\\u0000-\u001f][^/\\\u0000-\u001f]*"
#: A file that a command writes, from the repository's root.
ReportPath = Annotated[str, Meta(max_length=4096, pattern=rf"^({_FILE_INSIDE}/)*{_FILE_INSIDE}{END}")]


class CoverageRequirement(Document):
    """A coverage report that the command writes, and the part of the changed lines that it must show as executed."""

    file: ReportPath
    """Path of the report, from the repository's root."""
    changed_lines_percent: Annotated[int, Meta(ge=0, le=100)]
    """Percentage of the executable lines that the change wrote."""
    format: CoverageFormat | None = None
    """Format of the report; null or absent: by the ending of the file (.xml, .info, .out, .json)."""

    @property
    def read_as(self) -> CoverageFormat | None:
        """The format; None if the ending does not show it."""
        endings: dict[str, CoverageFormat] = {"xml": "cobertura", "info": "lcov", "out": "go", "json": "coverage_json"}
        return self.format or endings.get(self.file.rpartition(".")[2])


#: Kinds of reports of audits, and levels of findings, lowest first (SARIF 2.1.0, section 3.27.10).
AuditFormat = Literal["sarif", "junit", "score"]
AuditLevel = Literal["none", "note", "warning", "error"]
AUDIT_LEVELS: tuple[AuditLevel, ...] = get_args(AuditLevel)


class AuditRequirement(Document):
    """A file with findings or a score that the command writes, and what it may contain."""

    file: ReportPath
    """Path of the file, from the repository's root."""
    format: AuditFormat | None = None
    """SARIF 2, JUnit's XML, or JSON with a number "score"; null or absent: by the ending of the file (.sarif, .xml, .json)."""
    max_new: Annotated[int, Meta(ge=0, le=MAX_INTEGER)] = 0
    """Maximum number of findings that the command does not report on the baseline; for SARIF and JUnit."""
    level: AuditLevel = "warning"
    """The lowest level of findings that count; those of JUnit are errors."""
    min_score: Annotated[float, Meta(ge=-1e9, le=1e9)] | None = None
    """The lowest permitted score; required for a score, and for nothing else."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "level", "min_score")

    @property
    def fault(self) -> str:
        """Why the fields contradict each other; empty if they do not."""
        if self.read_as is None:
            return "its format is unknown: name it, or end the file in .sarif, .xml or .json"
        if (self.min_score is not None) != (self.read_as == "score"):
            return "a score needs min_score, which nothing else has"
        return "max_new and level are about findings, not scores" if self.read_as == "score" and self._limits_findings else ""

    @property
    def _limits_findings(self) -> bool:
        return self.max_new != 0 or self.level != "warning"

    @property
    def read_as(self) -> AuditFormat | None:
        """The format; None if the ending does not show it."""
        endings: dict[str, AuditFormat] = {"sarif": "sarif", "xml": "junit", "json": "score"}
        return self.format or endings.get(self.file.rpartition(".")[2])


class AcceptanceTest(Document):
    """A command that proves the change.

    A failed command that passes its second run is recorded as flaky, and is passed.
    """

    name: str
    """What the test is called in reports."""
    cmd: str
    """Words of an argv, split as a shell would. No shell runs, and shell syntax is refused (specification 8, mechanism 3)."""
    must_pass: bool
    """Whether an exit code other than 0 fails the run."""
    may_rerun: bool = False
    """Run it once more if it fails. Both runs are reported, and the evidence names a pass after a failure as flaky."""
    hidden: bool = False
    """Only the test runner sees the command and the input artifacts named hidden:PATH, which replace the candidate's files. The
    pm, the tech lead, the worker and the reviewer never see them."""
    coverage: CoverageRequirement | None = None
    """A coverage report that the command writes, with a threshold for changed lines; not for a hidden command."""
    audit: AuditRequirement | None = None
    """Findings or a score that the command writes, with their limits; not for a hidden command. It counts even if the command
    need not pass."""


#: A tool of a server of the operator's: SERVER.TOOL.
ToolName = Annotated[str, Meta(pattern=rf"^{PROGRAM_NAME}\.{TOOL_NAME}{END}")]


class ToolPermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network
    mcp_tools: tuple[str, ...]
    """Names of MCP tools that the agent may call; an unknown one is refused."""


class TimeoutRetry(Document):
    timeout_sec: Annotated[float, Meta(ge=1, le=MAX_NUMBER)]
    """Seconds that one command or one task may take."""
    max_retries: Annotated[int, Meta(ge=0, le=10)]
    """Rounds of the fix loop (specification 7, S5)."""
    retry_backoff_sec: Seconds
    """Seconds between rounds."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec", "retry_backoff_sec")


RequirementId = Annotated[str, Meta(pattern=rf"^[A-Z][A-Z0-9]*-[A-Z][A-Z0-9]*-[0-9]{{3,}}{END}")]
#: Words of the operator's for what processes have.
Needs = Annotated[tuple[Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9._:-]{{0,63}}{END}")], ...], Meta(max_length=16)]
