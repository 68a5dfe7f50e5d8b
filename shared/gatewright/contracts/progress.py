"""Results of a run as references and digests: its progress packet, and the memory for later runs.

They contain no text of agents, models or requesters: only codes, ids, digests, numbers, and path names quoted as by git.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    END,
    Attempt,
    Count,
    Document,
    LandingMode,
    NonEmpty,
    ObjectId,
    Positive,
    RunId,
    Sha256,
    Timestamp,
)

RunEnd = Literal["SUCCESS", "FAILED", "ABORTED"]
ShardState = Literal["done", "untouched", "refused", "open"]
#: A path as git quotes it: printable ASCII on one line.
QuotedPath = Annotated[str, Meta(max_length=240, pattern=rf"^[ -~]+{END}")]
Code = Annotated[str, Meta(max_length=80, pattern=rf"^[a-z][a-z0-9_.]*{END}")]
#: A file of the bundle, a ref of the repository, or an id: never words.
Reference = Annotated[str, Meta(max_length=300, pattern=rf"^[!-~]+{END}")]
TaskType = Annotated[str, Meta(max_length=80, pattern=rf"^[A-Za-z0-9_.-]+{END}")]


class NamedPaths(Document):
    """Some changed or allowed paths, and how many more there are."""

    paths: Annotated[tuple[QuotedPath, ...], Meta(max_length=60)]
    """Paths as git quotes them, the first ones in byte order."""
    more: Count
    """How many are not listed."""


class PacketOrder(Document):
    """What was ordered."""

    allowed: NamedPaths
    """Paths that the contract allows."""
    acceptance_tests: Count
    """Number of acceptance commands that every role sees."""
    hidden_tests: Count
    """Number of acceptance commands that only the test runner sees."""
    task_type: TaskType | None = None
    """Kind of the task."""
    request_sha256: Sha256 | None = None
    """Digest of request.json."""
    contract_sha256: Sha256 | None = None
    """Digest of contract.json."""


class PacketLanding(Document):
    """What landed."""

    mode: LandingMode
    """Where the change was to land."""
    tree: ObjectId
    """The tree that landed."""
    commit: str
    """The commit; empty where none was made."""
    ref: Annotated[str, Meta(max_length=300)]
    """The ref that holds it; empty: nothing was to land."""


class PacketProof(Document):
    """One acceptance command of the last attempt."""

    number: Positive
    """Its position in reports/test_report.json, from 1."""
    argv_sha256: Sha256
    """Digest of its argv as canonical JSON."""
    must_pass: bool
    """Whether the run fails if it fails."""
    passed: bool
    """Whether it ended with 0, neither timed out nor stopped."""
    exit_code: int
    """Exit code of the command."""


class PacketProofs(Document):
    """The commands that every maker could see; of hidden commands, only how many passed and failed."""

    commands: Annotated[tuple[PacketProof, ...], Meta(max_length=40)]
    """The last run of each visible command."""
    more: Count
    """How many are not listed."""
    hidden_passed: Count
    """Number of hidden commands that passed."""
    hidden_failed: Count
    """Number of hidden commands that did not pass."""


class OpenItem(Document):
    """What is left to do, or was in the way."""

    kind: Literal["gate", "task", "test", "approval", "merge"]
    """Kind of the item."""
    reason: Code
    """Stable reason code, or the state of the item."""
    ref: Reference
    """Where to find it: a file of the bundle, a ref, or an id."""


class PacketRepair(Document):
    """A repair that was ordered, and why."""

    attempt: Attempt
    """The round that was ordered."""
    reason: Code
    """Stable reason code."""
    event: Positive
    """Number of the event that ordered it."""


class PacketDecision(Document):
    """A decision, by its id in the decisions log."""

    id: Reference
    """Id of the decision in decisions.json."""
    by: Literal["pm", "techlead", "gatekeeper", "publisher"]
    """The role that decided; older logs leave it out."""
    supersedes: Reference | None = None
    """Id of the decision that it replaces."""


class PlannedShard(Document):
    """One shard of the plan, compared with the evidence."""

    task_id: Reference
    """The task of the shard in the first attempt."""
    planned: NamedPaths
    """Paths that the plan gave it."""
    touched: Count
    """Number of changed files inside these paths."""
    state: ShardState
    """done: accepted, with changed files. untouched: accepted, without changes. refused: answered, and not accepted in the last
    attempt. open: never answered."""


class Reconciliation(Document):
    """The plan compared with the evidence. It is advice, and no gate looks at it."""

    shards: Annotated[tuple[PlannedShard, ...], Meta(max_length=40)]
    """One entry for each shard of the plan."""
    more: Count
    """How many are not listed."""
    unplanned: Count
    """Number of changed files outside all shards."""
    untested: bool
    """Whether some test that must pass did not pass on what was touched."""
    complete: bool
    """Whether every shard is done, and all of that was tested."""


class ProgressPacket(Document):
    """The outcome of a run, made of its events alone: references and digests, and no words of agents.

    It can be made again and compared.
    """

    run_id: RunId
    repository_sha256: Sha256
    """Digest of the key that all runs on one repository share."""
    status: RunEnd
    """How the run ended."""
    code: Code
    """Stable reason code of the end; ok for a success."""
    attempts: Attempt
    """Number of rounds that it took."""
    started_at: Timestamp
    finished_at: Timestamp
    order: PacketOrder
    """What was ordered."""
    touched: NamedPaths
    """Files that the candidate changes."""
    proofs: PacketProofs
    """Acceptance commands of the last attempt."""
    open: Annotated[tuple[OpenItem, ...], Meta(max_length=40)]
    """What is left to do, or was in the way."""
    repairs: Annotated[tuple[PacketRepair, ...], Meta(max_length=20)]
    """Repairs that were ordered."""
    reason_codes: Annotated[tuple[Code, ...], Meta(max_length=40)]
    """Codes of all refusals, each once."""
    decisions: Annotated[tuple[PacketDecision, ...], Meta(max_length=40)]
    """Decisions, by id."""
    left_out: Count
    """Number of open items, repairs, codes and decisions that did not fit."""
    candidate_tree: ObjectId | None = None
    """Tree of the candidate."""
    landed: PacketLanding | None = None
    """What landed."""
    reconciliation: Reconciliation | None = None
    """The plan compared with the evidence. It is advice only."""


class MemoryEntry(Document):
    """One earlier run."""

    run_id: RunId
    finished_at: Timestamp
    status: RunEnd
    """How the run ended."""
    code: Code
    """Stable reason code of the end."""
    attempts: Attempt
    """Number of rounds that it took."""
    packet_sha256: Sha256
    """Digest of its progress packet."""
    manifest_sha256: Sha256
    """Digest of the manifest of its bundle."""
    touched: Annotated[tuple[QuotedPath, ...], Meta(max_length=12)]
    """Files that its candidate changes, as git quotes them."""
    more_touched: Count
    """How many are not listed."""
    tests_passed: Count
    """Number of visible acceptance commands that passed in the last attempt."""
    tests_run: Count
    """Number of visible acceptance commands that ran in the last attempt."""
    reason_codes: Annotated[tuple[Code, ...], Meta(max_length=12)]
    """Codes of its refusals."""
    open: Annotated[tuple[Code, ...], Meta(max_length=12)]
    """Stable codes of what was left open."""
    decisions: Annotated[tuple[Reference, ...], Meta(max_length=12)]
    """Ids of the decisions that no later one supersedes."""
    task_type: TaskType | None = None
    """Kind of the task."""
    landed_commit: ObjectId | None = None
    """The commit that landed."""
    landed_ref: Reference | None = None
    """The ref that it landed on."""


class MemoryBounds(Document):
    """How much memory of earlier runs a run receives. The oldest entries are dropped first."""

    entries: Annotated[int, Meta(ge=1, le=32)]
    max_bytes: Annotated[int, Meta(ge=4096, le=65536)]


class CanonicalMemory(Document):
    """The outcomes of earlier runs of one publisher on one repository: references only, bounded, and no instruction."""

    repository_sha256: Sha256
    """Digest of the key that all runs on one repository share."""
    publisher: NonEmpty
    """The publisher of the runs."""
    entries: Annotated[tuple[MemoryEntry, ...], Meta(min_length=1, max_length=32)]
    """The entries, the newest last."""
