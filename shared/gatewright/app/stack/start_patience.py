"""How long to wait for the start of a stack: as long as it makes progress, on a busy host too, but not for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gatewright.app.stack.processes import cpu_seconds

#: Processor time of a stack that is progress: imports use more, and waiting for a message less.
_STEP: Final = 0.2
#: Seconds between two looks, as each reads the list of all processes.
_LOOK: Final = 1.0


@dataclass
class StartPatience:
    """The wait ends after ``seconds`` without progress, or ``most`` in all. ``now`` is a monotonic clock."""

    seconds: float
    most: float
    now: Callable[[], float]
    _begun: float = field(init=False)
    _since: float = field(init=False)
    _seen: float = field(init=False, default=0.0)
    _looked: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._begun = self._since = self.now()

    @property
    def waited(self) -> float:
        """Seconds so far."""
        return self.now() - self._begun

    def is_over(self, progress: Callable[[], float]) -> bool:
        """Return whether to give up; ``progress`` returns a number that grows with progress (``progress_of``), called once a
        second."""
        now = self.now()
        if now - self._looked >= _LOOK:
            self._looked, seen = now, progress()
            if seen >= self._seen + 1.0:
                self._seen, self._since = seen, now
        return now - self._since >= self.seconds or now - self._begun >= self.most


def progress_of(pid: int | None = None) -> float:
    """Return the progress of the process ``pid`` (this one) and all below: 1 per step of processor time used. Blocks."""
    return cpu_seconds(pid or os.getpid()) / _STEP
