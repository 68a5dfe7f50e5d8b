"""The receipt of a landing of the merge queue, and the report of a test of a position."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.queue_policy import Outcome
from gatewright.contracts.reports import TestReport
from gatewright.contracts.vocabulary import Document, NonEmpty, ObjectId, Positive, RunId, Seconds, Sha256, keep_one_spelling

#: Outcome of a position in a receipt. ``untested``: no test of its tree had ended.
PositionOutcome = Literal["passed", "failed", "timed_out", "infrastructure", "untested"]


class Blob(Document, frozen=True):
    """The content of a path in a tree."""

    mode: NonEmpty
    """Six octal digits."""
    object_id: ObjectId
    """A blob; for mode 160000, a commit."""


class Change(Document, frozen=True):
    """The change of one path by a run. A rename is a deletion and an addition."""

    path: NonEmpty
    """The path, in UTF-8."""
    old: Blob | None = None
    """The content before; null where the path is new."""
    new: Blob | None = None
    """The content after; null where the path is deleted."""


class Tip(Document, frozen=True):
    """A commit and its tree."""

    commit: ObjectId
    """The commit."""
    tree: ObjectId
    """Its tree."""


class GitObject(Document, frozen=True):
    """A git object without its header."""

    kind: Literal["commit", "tree"]
    """Its type."""
    data: bytes
    """Its content, in base64."""


class OrderedCommand(Document, frozen=True):
    """A command of a part, as it was ordered."""

    name: NonEmpty
    """Its name."""
    argv: tuple[str, ...]
    """The program and its arguments."""
    must_pass: bool = True
    """Whether the position fails when the command does."""
    may_rerun: bool = False
    """Whether the command may run again after a failure."""


class ReportPart(Document, frozen=True):
    """One task of a test, and its answer."""

    runs: tuple[RunId, ...]
    """The runs whose acceptance commands it ran; empty for the standing commands of the policy."""
    commands: tuple[OrderedCommand, ...]
    """The ordered commands."""
    timeout_sec: Seconds
    """Time limit of each command."""
    report: TestReport
    """The answer of the test runner."""
    image: NonEmpty | None = None
    """The image whose programs the commands had to see."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec")


class PositionReport(Document, frozen=True):
    """The report of one test of a merge queue: the answers to all its parts, and the outcome that follows from them."""

    repository: NonEmpty
    """The repository, however its URL is spelled."""
    branch: NonEmpty
    """Full name of the branch."""
    number: Positive
    """Number of the test in its queue."""
    tree: ObjectId
    """The tested tree."""
    policy_sha256: Sha256
    """Digest of the queue's policy."""
    outcome: Outcome
    """The outcome; infrastructure stands for a test without a full report."""
    failed: tuple[NonEmpty, ...]
    """Names of the tests that failed, or of their commands where no report names the tests."""
    parts: tuple[ReportPart, ...]
    """The tasks of the test."""


class ReceiptPosition(Document, frozen=True):
    """A position as it landed."""

    number: Positive
    """Number of the position in its queue."""
    base: Tip
    """The branch when the position was formed."""
    ahead: tuple[RunId, ...]
    """The runs that were assumed to land before it."""
    resolved: tuple[NonEmpty, ...]
    """How each of these runs ended; landed for all of them."""
    runs: tuple[RunId, ...]
    """The runs of the position, in landing order."""
    commits: tuple[ObjectId, ...]
    """The commit of each run."""
    tree: ObjectId
    """The tree of the last commit."""
    outcome: PositionOutcome
    """Outcome of the test of this tree. The last position of a receipt has passed."""
    report_sha256: str = ""
    """Digest of the report of this test."""


class QueueReceipt(Document, frozen=True):
    """The result of one push of a merge queue, with everything that proves it without a repository."""

    repository: NonEmpty
    """The repository, however its URL is spelled."""
    branch: NonEmpty
    """Full name of the branch."""
    policy_sha256: Sha256
    """Digest of the queue's policy."""
    landing: Positive
    """Number of the push in its queue."""
    before: Tip
    """The branch before the push."""
    after: Tip
    """The branch after the push."""
    positions: tuple[ReceiptPosition, ...]
    """The positions that landed, in order."""
    changes: dict[str, tuple[Change, ...]]
    """The change of each run that landed, by run id."""
    reports: tuple[PositionReport, ...] = ()
    """The reports of those positions that were tested."""
    objects: tuple[GitObject, ...] = ()
    """The commits of the push and the one before it, and the trees of that one on changed paths."""

    def commits(self) -> dict[str, str]:
        """Return the commit of each run, in landing order."""
        return {run_id: commit for each in self.positions for run_id, commit in zip(each.runs, each.commits, strict=False)}
