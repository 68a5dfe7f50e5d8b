"""What publishers ask about runs: how one stands (``gw.status``), its events (``gw.events``), which there are (``gw.runs``).

And what one has come to so far, in words for models (``gw.context``).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gatewright.contracts.activity import ActivityKind, ProcessId
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import GateName
from gatewright.contracts.vocabulary import (
    Attempt,
    Count,
    Document,
    LandingMode,
    NonEmpty,
    Positive,
    RunId,
    Sha256,
    Timestamp,
    keep_one_spelling,
)
from gatewright.reasons import Family

ContextSelector = Literal["summary", "decisions", "review", "diff"]
RunOutcome = Literal["RUNNING", "SUCCESS", "FAILED", "ABORTED"]
#: Seconds that a question for events may be kept open at most.
LONGEST_EVENTS_WAIT = 20


class StatusRequest(Document):
    """Which run is asked about."""

    run_id: RunId


class TaskStanding(Document):
    """``attempt`` is the round of the fix loop that the task belongs to.

    ``claimed_at``: when the gatekeeper that answers last heard that it is in hand, with the ``phase``, ``activity`` and
    ``process`` that were claimed: the role's own word, and no evidence. ``silent_since``: from when on claims of it have been
    missing; None while it is not silent.
    """

    task_id: NonEmpty
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]
    attempt: Attempt
    claimed_at: Timestamp | None = None
    phase: Literal["working", "waiting"] | None = None
    activity: ActivityKind | None = None
    process: ProcessId | None = None
    silent_since: Timestamp | None = None


class GateStanding(Document):
    """A verdict so far; ``code`` is ``ok`` or the reason."""

    gate: GateName
    verdict: Literal["PASS", "FAIL"]
    code: NonEmpty
    at: Timestamp
    attempt: Attempt
    task_id: str | None = None


class LandedChange(Document):
    """Where the change is; ``ref`` and ``commit`` are empty where nothing was to be landed."""

    mode: LandingMode
    ref: str
    commit: str
    tree: str


class SealedBundle(Document):
    """The signed bundle. ``location`` is a path on the gatekeeper's host."""

    manifest_sha256: Sha256
    signer: str
    location: str


class RunStatus(Document):
    """A run as the ledger has it now. ``since`` is when it entered its ``state``."""

    run_id: RunId
    publisher: NonEmpty
    requested_by: str
    status: RunOutcome
    state: Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "FAILED", "ABORTED"]
    since: Timestamp
    created_at: Timestamp
    attempt: Attempt
    tasks: tuple[TaskStanding, ...]
    gates: tuple[GateStanding, ...]
    #: Another run holds paths that this one needs.
    waiting_for_locks: bool = False
    finished_at: str | None = None
    #: ``ok`` or the reason, once the run has ended.
    code: str | None = None
    message: str | None = None
    #: What the reason is about; an older version says none.
    family: Family | None = None
    landed: LandedChange | None = None
    bundle: SealedBundle | None = None
    #: From when on claims of what is in hand have been missing; None while the run is not silent.
    silent_since: Timestamp | None = None


class EventsRequest(Document):
    """The events of a run beyond number ``after``; ``wait_seconds``: how long to wait where there are none yet."""

    run_id: RunId
    after: Count = 0
    wait_seconds: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_EVENTS_WAIT)] = 0


class RunEvents(Document):
    """Events in order and without a gap; ``more`` is false once they end with the sealing of the bundle."""

    run_id: RunId
    events: tuple[OrchestratorEvent, ...]
    more: bool


class BundleRequest(Document):
    """A part of the sealed bundle of a run, from byte ``offset`` of its archive on."""

    run_id: RunId
    offset: Count = 0


class BundlePart(Document):
    """``size`` and ``sha256`` are the whole archive's, ``data`` is base64."""

    run_id: RunId
    manifest_sha256: Sha256
    size: Count
    sha256: Sha256
    offset: Count
    data: str


class RunsRequest(Document):
    """A page of runs, the newest first; ``before``: the last run of the page before. ``prefix``: how the run ids begin."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50
    before: str | None = None
    prefix: str | None = None
    open_only: bool = False


#: Claimed tasks of one run that a list names.
MOST_CLAIMED = 20


class ClaimedTask(Document):
    """A task in hand, and the process that claims it, in its own word."""

    task_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    process: ProcessId


class MovedTarget(Document):
    """The branch ``ref`` that a run lands on has left the commit that the run started from. ``found`` empty: it is gone."""

    ref: NonEmpty
    expected: NonEmpty
    found: str


class ListedRun(Document):
    """A run as a list shows it; ``silent_since`` as in its status. ``claimed``: which process claims which of its tasks.

    ``moved``: of a run that waits for a person, where its target was last seen, if that is no longer where the run started.
    """

    run_id: RunId
    publisher: NonEmpty
    status: RunOutcome
    created_at: Timestamp
    silent_since: Timestamp | None = None
    claimed: Annotated[tuple[ClaimedTask, ...], msgspec.Meta(max_length=MOST_CLAIMED)] = ()
    moved: MovedTarget | None = None


class RunList(Document):
    """``more``: whether there are older ones."""

    runs: tuple[ListedRun, ...]
    more: bool


class ContextRequest(Document):
    """What is wanted of a run; ``brief`` says less of each section than ``full``."""

    run_id: RunId
    selectors: Annotated[tuple[ContextSelector, ...], msgspec.Meta(min_length=1, max_length=4)] = ("summary", "decisions")
    scope: Literal["brief", "full"] = "brief"

    def __post_init__(self) -> None:
        keep_one_spelling(self, "selectors", "scope")


class MemoryRequest(Document):
    """What is known of earlier runs of who asks on a repository, under whatever spelling."""

    repository: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class ContextSection(Document):
    """``text``: a block of data, as much as the scope lets through. ``characters``: of the whole; ``cut``: that is more."""

    selector: ContextSelector
    text: Annotated[str, msgspec.Meta(max_length=700_000)]
    characters: Count
    cut: bool


class RunContext(Document):
    """A run as its ledger has it after the event ``seq``: what changed since then, this does not tell.

    ``tree``: of the change that reviewers see; None where there is none, or several. ``sections``: in the order of the request.
    """

    run_id: RunId
    seq: Positive
    status: RunOutcome
    state: Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "FAILED", "ABORTED"]
    attempt: Attempt
    sections: tuple[ContextSection, ...]
    tree: str | None = None
