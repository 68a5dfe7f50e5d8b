"""``shares.json``: how many tasks of one repository and of one publisher are given out at once, and who weighs more. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.policy_files import PolicyFile, PolicyModel

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
SHARES_FILE: Final = PolicyFile("shares.json", SharesPolicy, default=lambda: NO_SHARES)
