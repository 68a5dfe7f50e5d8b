"""Dispatch policy: shares of tasks (``shares.json``) and the length of a beat (``beats.json``). Pure.

A beat is the unit of time for waiting on people and slow work. Roles claim each task in progress once per beat, and approval
rules may measure time in beats. Without the file a beat is 15 minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.contracts.activity import LONGEST_BEAT
from gatewright.contracts.people.approvals import DEFAULT_BEAT
from gatewright.policy_files import PolicyFile, PolicyModel

MostTasks = Annotated[int, Field(ge=1, le=1_000_000)]
Weight = Annotated[float, Field(ge=0.01, le=100)]


class SharesPolicy(PolicyModel):
    """Maximum number of concurrent tasks per repository and per publisher, and weights.

    ``null`` means unlimited. ``weights``, by publisher: a run of weight 2 gets two tasks where others get one.
    """

    version: Literal["1"]
    tasks_per_repository: MostTasks | None = None
    tasks_per_publisher: MostTasks | None = None
    weights: Mapping[str, Weight] = Field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        return self.tasks_per_repository is not None or self.tasks_per_publisher is not None


class BeatsPolicy(PolicyModel):
    """``seconds`` per beat; a task without a claim for ``silent_after`` beats is silent."""

    version: Literal["1"]
    seconds: Annotated[int, Field(ge=1, le=LONGEST_BEAT)] = DEFAULT_BEAT
    #: A single lost claim must not make a task silent.
    silent_after: Annotated[int, Field(ge=2, le=100)] = 2

    @property
    def silence(self) -> float:
        """Seconds without a claim after which a task is silent."""
        return float(self.seconds * self.silent_after)


NO_SHARES: Final = SharesPolicy(version="1")
SHARES_FILE: Final = PolicyFile("shares.json", SharesPolicy, default=lambda: NO_SHARES)
QUARTER_HOURS: Final = BeatsPolicy(version="1")
BEATS_FILE: Final = PolicyFile("beats.json", BeatsPolicy, default=lambda: QUARTER_HOURS)
