"""``retention.json`` in the folder of policies: after how many days what is left of sealed runs expires. Without it, never."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from gatewright.app.retention.inventory import InventoryItem
from gatewright.contracts import LegalHold
from gatewright.errors import ConfigurationError
from gatewright.policy_files import PolicyFile, PolicyModel

_DAY: Final = 86_400.0


class LedgerRetention(PolicyModel):
    """``days``: how long after its end a sealed run stays in the ledger, whole."""

    days: int = Field(ge=7, le=36_500)


class BranchRetention(PolicyModel):
    """``days``: how long after the end of its run a merged branch of a run stays."""

    days: int = Field(ge=7, le=36_500)


class ArtifactRetention(PolicyModel):
    """``days``: how long an artifact without references stays after it was last stored."""

    days: int = Field(ge=7, le=36_500)


class DeadLetterRetention(PolicyModel):
    """``days``: how long a dead letter stays."""

    days: int = Field(ge=30, le=36_500)


class ExpiryPolicy(PolicyModel):
    """The expiry of sealed runs' data; a missing part never expires."""

    version: Literal["1"]
    ledger: LedgerRetention | None = None
    branches: BranchRetention | None = None
    artifacts: ArtifactRetention | None = None
    dead: DeadLetterRetention | None = None

    def of_bus(self) -> ExpiryPolicy:
        """Return itself. Raises ConfigurationError (``nothing_expires``) if it expires nothing on the bus."""
        if self.ledger is None and self.artifacts is None and self.dead is None:
            words = f"nothing on the bus expires: {RETENTION_FILE} has no ledger, artifacts or dead"
            raise ConfigurationError(words, code="nothing_expires")
        return self

    def branch_days(self) -> int:
        """After how many days branches go. Raises ConfigurationError (``nothing_expires``) where they never do."""
        if self.branches is None:
            raise ConfigurationError(f"no branch expires: {RETENTION_FILE} has no branches", code="nothing_expires")
        return self.branches.days


RETENTION_FILE: Final = PolicyFile("retention.json", ExpiryPolicy)


def load_expiry(folder: Path) -> ExpiryPolicy:
    """The operator's policy. Raises ConfigurationError (``nothing_expires`` where there is no such file)."""
    if (loaded := RETENTION_FILE.load_if_present(folder)) is None:
        raise ConfigurationError(f"nothing expires: there is no {RETENTION_FILE.path(folder)}", code="nothing_expires")
    return loaded.policy


def why_kept(entry: InventoryItem, held: Mapping[str, LegalHold], days: int, now: datetime) -> str:
    """Return why a run's data stays, by the state of its bundle; empty if it may expire ``days`` after its end."""
    if (hold := held.get(entry.run_id)) is not None:
        return f"on hold since {hold.at} by {hold.by}: {hold.reason}"
    if entry.state != "sealed" or entry.finished_at is None:
        return entry.note or f"its bundle is {entry.state.replace('_', ' ')}: only the ledger has the run"
    age = (now - entry.finished_at).total_seconds() / _DAY
    return "" if age >= days else f"{age:.1f} days old; kept for {days}"
