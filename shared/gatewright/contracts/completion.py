"""The completion report: the whole run held against its contract, line by line, by the gatekeeper."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import Document, NonEmpty, RunId, Sha256, Timestamp


class CompletionCheck(Document):
    """One rule of the definition of done. What was not judged has not been kept."""

    rule: NonEmpty
    verdict: Literal["PASS", "FAIL", "NOT_EVALUATED"]
    detail: str


class CompletionOutput(Document):
    """A required output; ``found`` is the artifact, object id or name that stands for it, empty when there is none."""

    name: str
    type: Literal["patch", "commit", "report", "json", "file"]
    acceptance: str
    found: str


class CompletionTest(Document):
    """An acceptance test of the contract and how it ended; ``exit_code`` is null when it did not run."""

    name: str
    must_pass: bool
    passed: bool
    exit_code: int | None = None


class CompletionShard(Document):
    task_id: NonEmpty
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]


class CompletionReport(Document):
    """``complete`` only when the run succeeded and every rule was kept."""

    run_id: RunId
    status: Literal["complete", "incomplete"]
    evaluated_at: Timestamp
    summary: str
    checks: tuple[CompletionCheck, ...]
    required_outputs: tuple[CompletionOutput, ...]
    acceptance_tests: tuple[CompletionTest, ...]
    shards: tuple[CompletionShard, ...]
    open_violations: tuple[Violation, ...]
    #: Digest of the contract's canonical JSON; null when the run never got one.
    contract_sha256: Sha256 | None = None
