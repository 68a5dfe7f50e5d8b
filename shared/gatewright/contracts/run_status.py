"""How a run stands, for who published it: asked for on ``gw.status``, answered from the ledger. It decides nothing."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.reports import GateName
from gatewright.contracts.vocabulary import Attempt, Document, LandingMode, NonEmpty, RunId, Sha256, Timestamp


class StatusRequest(Document):
    """Which run is asked about."""

    run_id: RunId


class TaskStanding(Document):
    """``attempt`` is the round of the fix loop that the task belongs to."""

    task_id: NonEmpty
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    status: Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]
    attempt: Attempt


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
    status: Literal["RUNNING", "SUCCESS", "FAILED", "ABORTED"]
    state: Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "FAILED", "ABORTED"]
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
    landed: LandedChange | None = None
    bundle: SealedBundle | None = None
