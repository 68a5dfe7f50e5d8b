"""Building blocks that several documents share. No document of its own lives here."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any, Literal, dataclass_transform

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
ObjectId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{40}}([0-9a-f]{{24}})?{END}")]
RunId = Annotated[str, Meta(min_length=8, max_length=64, pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]*{END}")]
#: Ids of documents may come from other systems; they are never used as file names or subjects.
DocumentId = Annotated[str, Meta(min_length=8)]
Timestamp = NonEmpty
#: ``docs/`` is a directory at the root, ``README.md`` one file, ``*.md`` every file whose name ends so; nothing else is one.
PathPattern = Annotated[str, Meta(max_length=4096, pattern=rf"^([*][^*?/\\\[\]]+|[^*?/\\\[\]][^*?\\\[\]]*){END}")]
Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
#: A round of the fix loop: one more than ``max_retries`` can ask for is far below the bound.
Attempt = Annotated[int, Meta(ge=1, le=100)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]

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
PolicyPack = Literal["low", "medium", "high"]
#: How urgent a run is among others; it changes when its tasks are taken, never what they may do.
Priority = Literal["high", "normal", "low"]
Filesystem = Literal["read-only", "workspace-write"]
Shell = Literal["deny", "untrusted", "on-request", "never"]
Network = Literal["deny", "on-request", "allow"]
LandingMode = Literal["branch", "target", "none"]
#: Whether a candidate is reviewed and tested at the same time, or tested only after a review that passed.
Judging = Literal["together", "in_turn"]
#: Kinds of change that are refused unless a contract names them; what is not in the list can never be opened.
ChangeKind = Literal[
    "binary",
    "executable",
    "mode_change",
    "symlink",
    "submodule",
    "gitattributes",
    "gitmodules",
    "large_file",
    "large_diff",
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
    codex_thread_id: str | None = None


class Artifact(Document):
    """A named blob. ``uri`` is ``artifact:sha256:<hex>`` (object store) or an RFC 2397 ``data:`` URI."""

    name: str
    uri: str
    sha256: Sha256


class Interpreter(Document):
    """The prefix that commands saw, pinned: its interpreter's bytes, and the names and versions of its packages."""

    prefix: NonEmpty
    version: str
    sha256: Sha256
    packages_sha256: Sha256


class EnvironmentState(Document):
    """What lay in the prefix when commands saw it.

    ``place_sha256`` is the same for one folder of one host until that restarts.
    """

    prefix: NonEmpty
    place_sha256: Sha256
    files_sha256: Sha256


class Surroundings(Document):
    """What a role worked with, in its own words: programs and their versions, the host, and what contained its commands."""

    versions: dict[str, str]
    host: dict[str, str]
    #: What the sandbox was seen to do when it was tried; left out by a role that runs no commands.
    sandbox: dict[str, str] | None = None
    interpreter: Interpreter | None = None
    environment: EnvironmentState | None = None
    #: Whose programs commands saw in the place of the host's: a name with a digest.
    image: NonEmpty | None = None
    #: Variables that every command sees with this very value: clock of builds, locale, time zone, seed.
    fixed: dict[str, str] | None = None


class Repository(Document):
    """Where the change belongs. ``url`` is whatever git can fetch; ``target_ref`` the full name of the ref to land on."""

    url: NonEmpty
    target_ref: str | None = None
    landing: LandingMode = "branch"

    def __post_init__(self) -> None:
        keep_one_spelling(self, "landing")


#: Line ends, controls and marks that turn text around: in a name they would forge a header of the commit, or what is read.
NOT_IN_NAMES = r"\u0000-\u001f\u007f-\u009f<>\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
#: git drops these from the ends of a name, and refuses a name that is nothing else.
_NOT_ALONE = r""".,:;"'\\"""
# No two neighbours of these patterns share a character: a reader that goes back for another way finds none, at any length.


class Person(Document):
    """Who a change is by, as git writes it into a commit. A claim of the publisher's, for the record."""

    name: Annotated[
        str,
        Meta(max_length=200, pattern=rf"^[ {_NOT_ALONE}]*[^ {NOT_IN_NAMES}{_NOT_ALONE}][^{NOT_IN_NAMES}]*{END}"),
    ]
    email: Annotated[
        str,
        Meta(max_length=254, pattern=rf"^[{_NOT_ALONE}]*[^\s{NOT_IN_NAMES}{_NOT_ALONE}][^\s{NOT_IN_NAMES}]*{END}"),
    ]


#: Every name by which one person is known where a run was ordered: an account, a mail address.
OrderedBy = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=320)], ...], Meta(max_length=8)]

#: People whose commits one patch may be made of.
MOST_AUTHORS = 100


class SourceBranch(Document):
    """The branch that a patch was taken from: its name, its commit, and the commit that it left the baseline at.

    ``authors``: everyone who made one of its commits, as ``Name <address>``; none of them approves the run. A claim of the
    publisher's, for the record: what is judged is the patch.
    """

    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    head: ObjectId
    base: ObjectId
    commits: Positive
    authors: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=600)], ...], Meta(max_length=MOST_AUTHORS)] = ()


#: What ``agents.json`` and ``models.json`` call an agent and a model.
AgentName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,31}}{END}")]
ModelName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._:/-]{{0,127}}{END}")]


class Executor(Document):
    """How the worker makes the change.

    ``command``: ``commands`` are argv strings, one per attempt, ``{paths}`` stands for the shard's paths.
    ``patch`` and ``reply``: ``artifacts`` name entries of ``inputs.artifacts``, one per attempt.
    ``agent`` (a coding agent) and ``model`` (a model whose reply is taken apart) are asked anew for each attempt; which ones,
    ``agent`` and ``model`` name, as the operator's policies do. A named model alone answers, unless ``fallback`` lets the
    models after it in the route of models.json answer in its place.
    """

    kind: Literal["command", "patch", "reply", "agent", "model"]
    commands: tuple[NonEmpty, ...] = ()
    artifacts: tuple[NonEmpty, ...] = ()
    agent: AgentName | None = None
    model: ModelName | None = None
    fallback: bool = False

    @property
    def falls_back(self) -> bool:
        """Whether other models of the route may answer in the place of the first one that is asked."""
        return self.fallback or self.model is None


#: Who makes the change where several do, each for itself, and the best of them lands.
Candidates = Annotated[tuple[Executor, ...], Meta(min_length=2, max_length=8)]
CandidateNumber = Annotated[int, Meta(ge=1, le=8)]


class Sharding(Document):
    """Into how many disjoint parts the tech lead may split the work; 1 passes it through."""

    count: Annotated[int, Meta(ge=1, le=64)] = 1


class FurtherEnvironment(Document):
    """See ``Environment``."""

    prefix: NonEmpty
    at: NonEmpty | None = None


class Environment(Document):
    """A prefix (a virtual environment, say) that commands see read-only; the role's settings must list it.

    ``at`` is a place in the repository where the folder is shown instead of at its own path: ``node_modules``, say. The same
    holds for ``others``, which commands see as well.
    """

    prefix: NonEmpty
    at: NonEmpty | None = None
    others: tuple[FurtherEnvironment, ...] = ()

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
    """What the operator's ``environments.json`` has for the language of a run, and by what the language was told.

    ``image`` is a name with a digest.
    """

    language: Language
    chosen_by: ProfileReason
    prefix: NonEmpty | None = None
    image: NonEmpty | None = None
    tools: tuple[NonEmpty, ...] = ()


class BlastRadius(Document):
    """What a destructive operation touches and cannot undo: in words, and in figures that are held against the change."""

    summary: NonEmpty
    paths: tuple[NonEmpty, ...]
    max_deletions: Count


class DestructiveStatement(Document):
    """What has to be known before a destructive operation. ``dry_run`` names the input artifact with its captured output."""

    operation: NonEmpty
    dry_run: NonEmpty
    blast_radius: BlastRadius
    backup: NonEmpty


class Scope(Document):
    """What is allowed beyond plain edits inside ``allowed_paths``.

    ``destructive`` lists operations: a command of the contract word for word, or ``delete files``. Each needs its statement.
    """

    allow_dependency_change: bool = False
    allow_protected_paths: tuple[NonEmpty, ...] = ()
    allow: tuple[ChangeKind, ...] = ()
    destructive: tuple[NonEmpty, ...] = ()
    destructive_statements: tuple[DestructiveStatement, ...] = ()


class Budget(Document):
    """What a run may use up; no field, no limit. The bounds keep sums and dates made of them finite."""

    wall_sec: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    tokens: Count | None = None
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    iterations: Positive | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "wall_sec", "cost_usd")


class MutationBounds(Document):
    """How many mutants of a change are tried against its tests, and how long. Written by the gatekeeper alone, of its policy.

    ``time_share``: of the seconds that the tests took, at least ``least_seconds``. ``must_kill``: the share of mutants that the
    tests have to notice; None: it is only said which they did not.
    """

    time_share: Annotated[float, Meta(ge=0, le=1)]
    least_seconds: Annotated[float, Meta(ge=0, le=600)]
    most_mutants: Annotated[int, Meta(ge=1, le=200)]
    must_kill: Annotated[float, Meta(ge=0, le=1)] | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "time_share", "least_seconds", "must_kill")


class Usage(Document):
    """What one delivery of a task has used up so far, all told; ``delivery`` tells it from the task's others.

    ``sent_bytes`` went to providers of models by a leave. ``unpriced``: a model without a known price was asked, so that
    ``cost_usd`` leaves out what that cost. ``incomplete``: a reply was cut off or never came, so that this is a lower bound.
    """

    tokens: Count
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)]
    iterations: Count
    delivery: Annotated[str, Meta(pattern=rf"^[0-9.]{{1,64}}{END}")]
    sent_bytes: Count = 0
    unpriced: bool = False
    incomplete: bool = False

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd")


class AcceptanceTest(Document):
    """``may_rerun``: when it fails it is run once more; a pass then is recorded as flaky, and counts.

    ``hidden``: the test runner alone is told of it (``gatewright.hidden_acceptance``).
    """

    name: str
    cmd: str
    must_pass: bool
    may_rerun: bool = False
    hidden: bool = False


class ToolPermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network
    mcp_tools: tuple[str, ...]


class TimeoutRetry(Document):
    timeout_sec: Annotated[float, Meta(ge=1, le=MAX_NUMBER)]
    max_retries: Annotated[int, Meta(ge=0, le=10)]
    retry_backoff_sec: Seconds

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec", "retry_backoff_sec")


RequirementId = Annotated[str, Meta(pattern=rf"^[A-Z][A-Z0-9]*-[A-Z][A-Z0-9]*-[0-9]{{3,}}{END}")]
#: Words of the operator's for what processes have.
Needs = Annotated[tuple[Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9._:-]{{0,63}}{END}")], ...], Meta(max_length=16)]
