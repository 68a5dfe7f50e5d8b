"""How tasks are given out (``shares.json``), and how long they are waited for (``beats.json``). Pure.

A beat is the measure of time for what people and slow work are waited for: roles claim once in it that a task is in hand, and
rules that ask people may count in it. Without the file a beat is a quarter of an hour.
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
    """How many tasks of one repository and of one publisher are given out at once, and who weighs more.

    ``null`` means no bound. ``weights``, by publisher: a run of weight 2 is given two tasks where others are given one.
    """

    version: Literal["1"]
    tasks_per_repository: MostTasks | None = None
    tasks_per_publisher: MostTasks | None = None
    weights: Mapping[str, Weight] = Field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        return self.tasks_per_repository is not None or self.tasks_per_publisher is not None


class BeatsPolicy(PolicyModel):
    """``seconds`` of one beat; a task of which nothing was heard for ``silent_after`` beats is silent."""

    version: Literal["1"]
    seconds: Annotated[int, Field(ge=1, le=LONGEST_BEAT)] = DEFAULT_BEAT
    #: One lost claim is no silence.
    silent_after: Annotated[int, Field(ge=2, le=100)] = 2

    @property
    def silence(self) -> float:
        """Seconds without a claim after which a task is silent."""
        return float(self.seconds * self.silent_after)


NO_SHARES: Final = SharesPolicy(version="1")
SHARES_FILE: Final = PolicyFile("shares.json", SharesPolicy, default=lambda: NO_SHARES)
QUARTER_HOURS: Final = BeatsPolicy(version="1")
BEATS_FILE: Final = PolicyFile("beats.json", BeatsPolicy, default=lambda: QUARTER_HOURS)
