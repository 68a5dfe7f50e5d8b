"""``shares.json``: how many tasks of one repository and of one publisher are given out at once, and who weighs more. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.policy_files import PolicyModel, parse_policy, policy_path, read_policy

SHARES_FILE: Final = "shares.json"
MostTasks = Annotated[int, Field(ge=1, le=1_000_000)]
Weight = Annotated[float, Field(ge=0.01, le=100)]


class SharesPolicy(PolicyModel):
    """``null`` means no bound. ``weights``, by publisher: a run of weight 2 is given two tasks where others are given one."""

    version: Literal["1"]
    tasks_per_repository: MostTasks | None = None
    tasks_per_publisher: MostTasks | None = None
    weights: Mapping[str, Weight] = Field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        return self.tasks_per_repository is not None or self.tasks_per_publisher is not None


NO_SHARES: Final = SharesPolicy(version="1")


def load_shares(folder: Path) -> tuple[SharesPolicy, str | None]:
    """``shares.json`` of the operator's folder with its digest; no bound and None without it. Raises ConfigurationError."""
    path = policy_path(folder, SHARES_FILE)
    if not path.exists():
        return NO_SHARES, None
    data = read_policy(path)
    return parse_policy(path, SharesPolicy, data), hashlib.sha256(data).hexdigest()
