"""The completion report: the whole run held against its contract, line by line, by the gatekeeper."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import Document, NonEmpty, RunId, Sha256, Timestamp


class CompletionCheck(Document):
    """One rule of the definition of done."""

    rule: NonEmpty
    """Name of the rule."""
    verdict: Literal["PASS", "FAIL", "NOT_EVALUATED"]
    """The verdict; a rule that was not judged has failed."""
    detail: str
    """A sentence with the deciding reason."""


class CompletionOutput(Document):
    """A required output of the contract, and what stands for it."""

    name: str
    """Its name in the contract."""
    type: Literal["patch", "commit", "report", "json", "file"]
    """Kind of the output."""
    acceptance: str
    """What makes it acceptable, from the contract."""
    found: str
    """The artifact, object id or name that stands for it; empty: none."""


class CompletionTest(Document):
    """An acceptance test of the contract and how it ended."""

    name: str
    """Name of the test."""
    must_pass: bool
    """Whether the run fails if it fails."""
    passed: bool
    """Whether its last run on the candidate ended with 0."""
    exit_code: int | None = None
    """Exit code of its last run; null if it did not run."""


class CompletionShard(Document):
    task_id: NonEmpty
    """Id of the task."""
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]
    """Its current state."""


class CompletionReport(Document):
    """The whole run compared with its contract before anything lands: the definition of done, rule by rule."""

    run_id: RunId
    status: Literal["complete", "incomplete"]
    """complete only if the run succeeded and every rule passed."""
    evaluated_at: Timestamp
    """When the rules were judged, or when the run ended without that."""
    summary: str
    """A text for people."""
    checks: tuple[CompletionCheck, ...]
    """Every rule of the definition of done, in order."""
    required_outputs: tuple[CompletionOutput, ...]
    """Every output that the contract requires."""
    acceptance_tests: tuple[CompletionTest, ...]
    """Every acceptance test of the contract."""
    shards: tuple[CompletionShard, ...]
    """The worker tasks of the last attempt."""
    open_violations: tuple[Violation, ...]
    """Violations that were not cured."""
    contract_sha256: Sha256 | None = None
    """SHA-256 of the contract's canonical JSON; null if the run never got a contract."""
