"""``beats.json``: how long a beat is, and after how many without a claim a task is called silent. Pure.

A beat is the measure of time for what people and slow work are waited for: roles claim once in it that a task is in hand, and
rules that ask people may count in it. Without the file a beat is a quarter of an hour.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from gatewright.contracts.activity import LONGEST_BEAT
from gatewright.contracts.people.approvals import DEFAULT_BEAT
from gatewright.policy_files import PolicyFile, PolicyModel


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


QUARTER_HOURS: Final = BeatsPolicy(version="1")
BEATS_FILE: Final = PolicyFile("beats.json", BeatsPolicy, default=lambda: QUARTER_HOURS)
