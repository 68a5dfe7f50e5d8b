"""What a run came to, in references and digests alone: its progress packet, and the memory that later runs are given of it.

No words of agents, models or requesters stand in them: codes, ids, digests, numbers, and names of paths as git quotes them.
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
    """The first paths in order of their bytes; ``more`` are not named."""

    paths: Annotated[tuple[QuotedPath, ...], Meta(max_length=60)]
    more: Count


class PacketOrder(Document):
    """What was ordered. ``request_sha256`` and ``contract_sha256`` are of the bundle's files; None where there is none."""

    allowed: NamedPaths
    acceptance_tests: Count
    hidden_tests: Count
    task_type: TaskType | None = None
    request_sha256: Sha256 | None = None
    contract_sha256: Sha256 | None = None


class PacketLanding(Document):
    """What landed; ``ref`` is empty where nothing was to be landed."""

    mode: LandingMode
    tree: ObjectId
    commit: str
    ref: Annotated[str, Meta(max_length=300)]


class PacketProof(Document):
    """One acceptance command of the last attempt: ``number`` is its place in the test report, from 1."""

    number: Positive
    argv_sha256: Sha256
    must_pass: bool
    passed: bool
    exit_code: int


class PacketProofs(Document):
    """The commands that every maker could see, and of hidden ones how many passed and how many did not."""

    commands: Annotated[tuple[PacketProof, ...], Meta(max_length=40)]
    more: Count
    hidden_passed: Count
    hidden_failed: Count


class OpenItem(Document):
    """What is left to do, or stood in the way; ``ref`` says where it is told."""

    kind: Literal["gate", "task", "test", "approval", "merge"]
    reason: Code
    ref: Reference


class PacketRepair(Document):
    """A repair that was ordered: for which reason, and the number of the event that ordered it."""

    attempt: Attempt
    reason: Code
    event: Positive


class PacketDecision(Document):
    """A decision by its id in the decisions log."""

    id: Reference
    by: Literal["pm", "techlead", "gatekeeper", "publisher"]
    supersedes: Reference | None = None


class PlannedShard(Document):
    """One shard of the plan against what was found. ``touched`` counts the changed files that lie in its paths.

    ``done``: accepted, and files of it changed. ``untouched``: accepted, and none did. ``refused``: answered, and not
    accepted in the last attempt. ``open``: never answered.
    """

    task_id: Reference
    planned: NamedPaths
    touched: Count
    state: ShardState


class Reconciliation(Document):
    """The plan against the evidence. It is advice, and no gate looks at it.

    ``unplanned`` counts changed files that lie in no shard; ``untested``: the tests that must pass did not all pass on what was
    touched; ``complete``: every shard is done, and all of that was tested.
    """

    shards: Annotated[tuple[PlannedShard, ...], Meta(max_length=40)]
    more: Count
    unplanned: Count
    untested: bool
    complete: bool


class ProgressPacket(Document):
    """What a run came to. Made of its events alone, so that it can be made again and compared.

    ``repository_sha256`` is the digest of the key that runs on one repository have in common. ``left_out`` counts open items,
    repairs, codes and decisions for which there was no room.
    """

    run_id: RunId
    repository_sha256: Sha256
    status: RunEnd
    code: Code
    attempts: Attempt
    started_at: Timestamp
    finished_at: Timestamp
    order: PacketOrder
    touched: NamedPaths
    proofs: PacketProofs
    open: Annotated[tuple[OpenItem, ...], Meta(max_length=40)]
    repairs: Annotated[tuple[PacketRepair, ...], Meta(max_length=20)]
    reason_codes: Annotated[tuple[Code, ...], Meta(max_length=40)]
    decisions: Annotated[tuple[PacketDecision, ...], Meta(max_length=40)]
    left_out: Count
    candidate_tree: ObjectId | None = None
    landed: PacketLanding | None = None
    reconciliation: Reconciliation | None = None


class MemoryEntry(Document):
    """One earlier run. ``packet_sha256`` and ``manifest_sha256`` name its packet and its bundle by digest.

    ``tests_passed`` of ``tests_run`` visible acceptance commands passed in its last attempt; ``decisions`` are the ids of those
    that no later one supersedes.
    """

    run_id: RunId
    finished_at: Timestamp
    status: RunEnd
    code: Code
    attempts: Attempt
    packet_sha256: Sha256
    manifest_sha256: Sha256
    touched: Annotated[tuple[QuotedPath, ...], Meta(max_length=12)]
    more_touched: Count
    tests_passed: Count
    tests_run: Count
    reason_codes: Annotated[tuple[Code, ...], Meta(max_length=12)]
    open: Annotated[tuple[Code, ...], Meta(max_length=12)]
    decisions: Annotated[tuple[Reference, ...], Meta(max_length=12)]
    task_type: TaskType | None = None
    landed_commit: ObjectId | None = None
    landed_ref: Reference | None = None


class MemoryBounds(Document):
    """How much of earlier runs a run is told: so many of them, in so many bytes; the oldest give way."""

    entries: Annotated[int, Meta(ge=1, le=32)]
    max_bytes: Annotated[int, Meta(ge=4096, le=65536)]


class CanonicalMemory(Document):
    """What earlier runs of one publisher on one repository came to, the newest last. References alone; it orders nothing."""

    repository_sha256: Sha256
    publisher: NonEmpty
    entries: Annotated[tuple[MemoryEntry, ...], Meta(min_length=1, max_length=32)]
