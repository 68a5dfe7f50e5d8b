"""The restart policy of role processes: when to restart, and when to give up. Pure: times are passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """``patience`` quick deaths in a row end the stack; a death is quick within ``settled`` seconds of the start.

    The first restart is immediate (a killed process must not delay its task); then the pause doubles from ``pause`` up to
    ``longest`` seconds.
    """

    patience: int = 5
    settled: float = 5.0
    pause: float = 0.1
    longest: float = 5.0


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """The restart history of one process."""

    restarts: int = 0
    quick_deaths: int = 0

    def died(self, policy: RestartPolicy, lived: float) -> RestartRecord:
        """The record after a death at the age of ``lived`` seconds."""
        quick = self.quick_deaths + 1 if lived < policy.settled else 0
        return RestartRecord(self.restarts + 1, quick)

    def hopeless(self, policy: RestartPolicy) -> bool:
        return self.quick_deaths >= policy.patience

    def delay(self, policy: RestartPolicy) -> float:
        """Seconds to wait before the next start."""
        if self.quick_deaths <= 1:
            return 0.0
        return min(policy.longest, policy.pause * 2.0 ** (self.quick_deaths - 2))
