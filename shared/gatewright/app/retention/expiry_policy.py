"""``retention.json`` in the folder of policies: after how many days sealed runs leave the ledger. Without it, never."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from gatewright.errors import ConfigurationError
from gatewright.policy_files import PolicyModel, parse_policy, read_policy

RETENTION_FILE: Final = "retention.json"


class LedgerRetention(PolicyModel):
    """``days``: how long after its end a sealed run stays in the ledger, whole."""

    days: int = Field(ge=7, le=36_500)


class ExpiryPolicy(PolicyModel):
    """What of the bus expires."""

    version: Literal["1"]
    ledger: LedgerRetention


def load_expiry(folder: Path) -> ExpiryPolicy:
    """The operator's policy. Raises ConfigurationError (``nothing_expires`` where there is no such file)."""
    path = folder / RETENTION_FILE
    if not path.exists():
        raise ConfigurationError(f"nothing in the ledger expires: there is no {path}", code="nothing_expires")
    return parse_policy(path, ExpiryPolicy, read_policy(path))
