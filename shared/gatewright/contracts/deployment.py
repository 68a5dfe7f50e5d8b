"""What came of deploying a landed commit."""

from __future__ import annotations

from typing import Literal

from gatewright.contracts.records import FileRecord
from gatewright.contracts.vocabulary import Document, NonEmpty, RunId, Sha256, Timestamp

#: RUNNING: the command was started, and no end is recorded. READY: it ended with exit code 0.
DeploymentState = Literal["RUNNING", "READY", "ERROR", "TIMEOUT"]


class Deployment(Document):
    """A signed record of one deployment of the commit that a run landed (OMEGA, ship step)."""

    run_id: RunId
    manifest_sha256: Sha256
    """SHA-256 of the manifest of the sealed bundle."""
    target: NonEmpty
    """Name of the deployment in the policy."""
    policy_sha256: Sha256
    """SHA-256 of the policy file."""
    repository: NonEmpty
    """Address of the repository."""
    ref: NonEmpty
    """Full name of the ref that the run moved."""
    commit: NonEmpty
    """Id of the commit that was deployed."""
    command: tuple[NonEmpty, ...]
    """Words of the argv."""
    state: DeploymentState
    """What came of it. RUNNING: no end is recorded. READY: exit code 0. TIMEOUT: it was ended at its time limit."""
    started_at: Timestamp
    """When the command was started."""
    key_id: Sha256
    """Id of the key that signed this record."""
    finished_at: Timestamp | None = None
    """When the command had ended; null: no end is recorded."""
    exit_code: int | None = None
    """Exit code of the command; null: it was stopped, or did not start."""
    reason: str = ""
    """Why it was stopped or did not start; empty for a command that ended by itself."""
    address: str = ""
    """The address that the command reported; empty for none."""
    files: tuple[FileRecord, ...] = ()
    """Beside this record: the output without secrets, and the log of requests if there were any."""
