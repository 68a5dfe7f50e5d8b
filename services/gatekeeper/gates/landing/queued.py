"""What the gates know of the merge queue: how a queued run stands there, and how it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class StillQueued:
    """Nothing is decided yet."""


@dataclass(frozen=True, slots=True)
class LandedByQueue:
    """The queue pushed the run's ``commit`` with this ``tree``. ``previous``: the branch before the push.

    ``receipt``: URI of the document that proves it.
    """

    commit: str
    tree: str
    previous: str
    receipt: str


@dataclass(frozen=True, slots=True)
class LeftQueue:
    """The run left without landing. ``code``: reason code of the run."""

    code: str
    words: str


QueueOutcome = StillQueued | LandedByQueue | LeftQueue


class MergeQueue(Protocol):
    """The merge queues of all targets."""

    def has_queue(self, url: str, ref: str) -> bool:
        """Return whether the policy has a queue for this branch."""

    async def check_entry(self, run: Run) -> str:
        """Return why a candidate cannot be queued; empty when it can.

        Raises:
            GitError: the repository cannot be read.
        """

    def waits(self, run_id: str) -> bool:
        """Return whether a run is known to be in its queue, so that nothing is due for the run itself."""

    async def outcome(self, run: Run) -> QueueOutcome:
        """Return how a run in state QUEUED stands. A run that is not in its queue is put there.

        Raises:
            BusError, GitError: it cannot be known now.
        """

    async def withdraw(self, run: Run) -> bool:
        """Take a run out of its queue. Return False when it is landing or has landed.

        Raises:
            BusError: it cannot be known now.
        """
