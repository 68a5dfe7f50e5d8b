"""Queries of publishers about runs: status (``gw.status``), events (``gw.events``), list (``gw.runs``).

And the results so far, as text for models (``gw.context``).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gatewright.contracts.activity import ActivityKind, ProcessId
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import GateName
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.vocabulary import (
    Attempt,
    Count,
    Document,
    LandingMode,
    NonEmpty,
    Positive,
    RunId,
    Sha256,
    Time,
    Timestamp,
    keep_one_spelling,
)
from gatewright.reasons import Family

ContextSelector = Literal["summary", "decisions", "review", "diff"]
RunOutcome = Literal["RUNNING", "SUCCESS", "FAILED", "ABORTED"]
#: Days for which results by test are kept.
MOST_FLAKY_DAYS = 90
#: Seconds that a question for events may be kept open at most.
LONGEST_EVENTS_WAIT = 20


class StatusRequest(Document):
    """Asks for the state of a run. The answer is a ``run_status.v1``, or an ``error.v1``."""

    run_id: RunId


class TaskStanding(Document):
    """The current state of a task.

    ``claimed_at``, ``phase``, ``activity``, ``process``, ``beat`` and ``window`` are claims of the role and no evidence.
    """

    task_id: NonEmpty
    """Id of the task."""
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    """The role that does the task."""
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]
    """Its current state."""
    attempt: Attempt
    claimed_at: Timestamp | None = None
    """When the last claim of the task arrived, by the clock of the gatekeeper that answers."""
    phase: Literal["working", "waiting"] | None = None
    """The last claimed phase; waiting: its host or the bus has no capacity for the work."""
    activity: ActivityKind | None = None
    """The kind of activity that its agent reported last, as claimed."""
    process: ProcessId | None = None
    """The process of the role that claimed it last. A claim, and no evidence."""
    beat: Count | None = None
    """Number of its last claim in its delivery, 0 first."""
    window: Count | None = None
    """The window of its last claim: whole beats since 1970-01-01 UTC by the clock of the sender."""
    silent_since: Timestamp | None = None
    """Since when claims of the task have been missing; left out while the task is not silent."""


class GateStanding(Document):
    """A gate's verdict so far."""

    gate: GateName
    """Which gate."""
    verdict: Literal["PASS", "FAIL"]
    """PASS or FAIL; there is nothing in between."""
    code: NonEmpty
    """ok, or the stable reason code."""
    at: Timestamp
    """When the verdict was given."""
    attempt: Attempt
    task_id: str | None = None
    """The judged task, if it was one task."""


class LandedChange(Document):
    """Where the change landed."""

    mode: LandingMode
    """How the change was to land."""
    ref: str
    """The ref that moved; empty for none."""
    commit: str
    """Id of the commit; empty for none."""
    tree: str
    """Id of the tested tree, which is also the tree of the commit."""


class SealedBundle(Document):
    """The signed bundle."""

    manifest_sha256: Sha256
    """Digest of its manifest."""
    signer: str
    """Id of the key that signed it."""
    location: str
    """Path on the gatekeeper's host."""


class RunStatus(Document):
    """The current state of a run, from the ledger. The answer to a ``status_request.v1``."""

    run_id: RunId
    publisher: NonEmpty
    """The identity that submitted it, as the bus knew it, not a claim."""
    requested_by: str
    """Who ordered the run, as the order names them. A claim, for the record."""
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    state: Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "QUEUED", "FAILED", "ABORTED"]
    """State in the life cycle of a run (specification 7)."""
    since: Timestamp
    """When the run entered this state."""
    created_at: Timestamp
    """When the run was accepted."""
    attempt: Attempt
    tasks: tuple[TaskStanding, ...]
    """Every task so far."""
    gates: tuple[GateStanding, ...]
    """Every verdict so far, in the order in which it was given."""
    waiting_for_locks: bool = False
    """Another run holds paths that this one needs."""
    finished_at: Time | None = None
    """When it ended."""
    code: str | None = None
    """ok, or the stable reason code, once the run has ended."""
    message: str | None = None
    """The reason, for people."""
    family: Family | None = None
    """Family of the reason of a run that did not succeed: the document that was sent, a rule that refused, work that failed, or
    a resource that was unavailable. Older versions leave it out."""
    landed: LandedChange | None = None
    """Where the change is, once it has landed."""
    task_type: TaskType = "IMPLEMENT"
    """Kind of the run: a change, or a plan, review or test that lands nothing."""
    bundle: SealedBundle | None = None
    """The signed bundle, once it is sealed."""
    silent_since: Timestamp | None = None
    """Since when claims of the run's open tasks have been missing; left out while the run is not silent."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "task_type")


class EventsRequest(Document):
    """Asks for the events of a run after those that the sender has. The answer is a ``run_events.v1``, or an ``error.v1``."""

    run_id: RunId
    after: Count = 0
    """Number of the last event that the sender has; 0: none."""
    wait_seconds: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_EVENTS_WAIT)] = 0
    """Seconds that the answer may wait for new events. It also waits for a run that does not exist yet."""


class RunEvents(Document):
    """Events of a run, in order and without a gap, as many as fit into one answer. The answer to an ``events_request.v1``."""

    run_id: RunId
    events: tuple[OrchestratorEvent, ...]
    """The events; empty if none came in time."""
    more: bool
    """Whether the run may have further events: false once its bundle is sealed."""


class BundleRequest(Document):
    """Asks for a part of the sealed bundle of a run, as an archive. The answer is a ``bundle_part.v1``, or an ``error.v1``."""

    run_id: RunId
    offset: Count = 0
    """Offset of the part's first byte in the archive."""


class BundlePart(Document):
    """A part of a bundle's archive: ZIP, without compression.

    The answer to a ``bundle_request.v1``. The parts of one archive agree on everything but ``offset`` and ``data``.
    """

    run_id: RunId
    manifest_sha256: Sha256
    """SHA-256 of the bundle's manifest, as the ledger has it."""
    size: Count
    """Bytes of the whole archive."""
    sha256: Sha256
    """SHA-256 of the whole archive."""
    offset: Count
    """Offset of the data in the archive."""
    data: str
    """Bytes of the archive in base64; empty at its end."""


class RunsRequest(Document):
    """Asks for the runs that the sender may see, the newest first. The answer is a ``run_list.v1``, or an ``error.v1``."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50
    """Maximum number of entries."""
    before: str | None = None
    """The last run_id of the page before. The list continues with older runs."""
    prefix: str | None = None
    """Only runs whose run_id begins with this."""
    open_only: bool = False
    """Leave out runs that have ended."""


#: Claimed tasks of one run that a list names.
MOST_CLAIMED = 20


class ClaimedTask(Document):
    """A task that a process works on, as the process claims."""

    task_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    """The task that is being worked on."""
    process: ProcessId
    """The id under which the process answers operators."""


class MovedTarget(Document):
    """The branch that a run lands on is no longer at the commit that the run started from."""

    ref: NonEmpty
    """The branch that the run lands on."""
    expected: NonEmpty
    """The commit that the run started from."""
    found: str
    """The commit that the branch was last seen at; empty: the branch is gone."""


class ListedRun(Document):
    """A run as a list shows it."""

    run_id: RunId
    publisher: NonEmpty
    """The identity that submitted the run."""
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    created_at: Timestamp
    """When the run was accepted."""
    silent_since: Timestamp | None = None
    """Since when claims of the run's open tasks have been missing; left out while the run is not silent."""
    claimed: Annotated[tuple[ClaimedTask, ...], msgspec.Meta(max_length=MOST_CLAIMED)] = ()
    """Open tasks with the process that claims each. Claims, and no evidence."""
    moved: MovedTarget | None = None
    """For a run that waits for a person: its target branch, if that has moved from the commit that the run started from."""


class RunList(Document):
    """A page of runs, the newest first. The answer to a ``runs_request.v1``."""

    runs: tuple[ListedRun, ...]
    """The runs."""
    more: bool
    """Whether there are older runs."""


class ContextRequest(Document):
    """Asks for a summary of a run so far, in words for models and people.

    The answer is a ``run_context.v1``, or an ``error.v1``.
    """

    run_id: RunId
    selectors: Annotated[tuple[ContextSelector, ...], msgspec.Meta(min_length=1, max_length=4)] = ("summary", "decisions")
    """The requested sections. A section that is named twice is returned once."""
    scope: Literal["brief", "full"] = "brief"
    """How much of each section: brief has less than full."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "selectors", "scope")


class MemoryRequest(Document):
    """Asks for the outcomes of the sender's sealed runs on a repository.

    The answer is a ``canonical_memory.v1``, or an ``error.v1``.
    """

    repository: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    """Address or path of the repository, in any spelling."""


class FlakyTestsRequest(Document):
    """Asks for flaky tests in the runs that the sender may see. The answer is a ``flaky_tests.v1``, or an ``error.v1``."""

    repository: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    """Address or path of the repository, in any spelling; empty: all repositories."""
    since_sec: Annotated[int, msgspec.Meta(ge=1, le=MOST_FLAKY_DAYS * 86_400)] = 30 * 86_400
    """Age limit of the runs in seconds."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "repository", "since_sec")


class FlakyTest(Document):
    """A test that failed and passed on one tree, with its results in recorded runs of the command."""

    repository: NonEmpty
    """Identity of the repository."""
    cmd_argv: tuple[str, ...]
    """The command as it ran, without a shell."""
    test: NonEmpty
    """Id of the test. Ids of more than 300 characters are not recorded."""
    plays: Count
    """Number of recorded results, beginning with the first failure."""
    failures: Count
    """Number of failures among them."""
    flaky_trees: Positive
    """Number of trees on which it failed and passed."""
    last_run: RunId
    """The run of the last failure."""
    last_failed_at: Timestamp
    """When that failure was judged."""

    @property
    def percent(self) -> float:
        """Failures per hundred results."""
        return round(100 * self.failures / self.plays, 1) if self.plays else 0.0


class FlakyTests(Document):
    """Flaky tests, those with the most flaky trees first. The answer to a ``flaky_tests_request.v1``."""

    tests: tuple[FlakyTest, ...]
    """The flaky tests."""
    reports: Count
    """Number of test reports in the period."""
    more: bool
    """Whether there are more flaky tests."""


class BudgetsRequest(Document):
    """Asks for the organisation's budgets that cover the sender's runs. The answer is a ``budget_states.v1``, or an
    ``error.v1``."""


#: Used share of a limit from which people and operators are warned.
NEARLY_USED = 0.8


class BudgetState(Document):
    """One entry of ``budgets.json`` in its current period. Money is in US dollars."""

    name: NonEmpty
    """Name of the entry."""
    period: Literal["day", "month"]
    """Length of a period."""
    ends: Timestamp
    """When the next period begins."""
    repositories: tuple[NonEmpty, ...]
    """Patterns of the repositories that it covers."""
    runs: Count
    """Number of runs that hold a reservation: they are not sealed yet."""
    spent_tokens: Count = 0
    """Tokens that sealed runs used."""
    reserved_tokens: Count = 0
    """Tokens that other runs may still use."""
    tokens: Count | None = None
    """Limit of tokens; null: none."""
    spent_usd: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Money that sealed runs used."""
    reserved_usd: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Money that other runs may still use."""
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Limit of money; null: none."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "spent_usd", "reserved_usd", "cost_usd")

    @property
    def share(self) -> float:
        """Return the used and reserved share of the limit that is closest, from 0.0; a limit of 0 is always reached."""
        amounts = (
            (self.spent_tokens + self.reserved_tokens, self.tokens),
            (self.spent_usd + self.reserved_usd, self.cost_usd),
        )
        return max((used / limit if limit else 1.0 for used, limit in amounts if limit is not None), default=0.0)


class BudgetStates(Document):
    """The budgets that cover runs of the sender. The answer to a ``budgets_request.v1``."""

    budgets: tuple[BudgetState, ...]
    """The entries, in the order of the policy."""


class ContextSection(Document):
    """One section of a run's summary."""

    selector: ContextSelector
    """The section."""
    text: Annotated[str, msgspec.Meta(max_length=700_000)]
    """The section as one block of data, inside a fence that nothing in it can close."""
    characters: Count
    """Number of characters of the whole section."""
    cut: bool
    """Whether the section is longer than the text here."""


class RunContext(Document):
    """A summary of a run, as the ledger has it after the event ``seq``. Its words are data and no instruction."""

    run_id: RunId
    seq: Positive
    """Number of the event after which the run had this state."""
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    state: Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "QUEUED", "FAILED", "ABORTED"]
    """State in the life cycle of a run."""
    attempt: Attempt
    sections: tuple[ContextSection, ...]
    """The sections, in the requested order."""
    tree: str | None = None
    """The tree of the change that reviewers see; left out if there is none, or several."""
