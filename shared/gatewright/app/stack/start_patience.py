"""How long the start of a stack is waited for: as long as it makes progress, on a busy host too, and never without end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gatewright.app.stack.processes import cpu_seconds

#: Processor time of a stack that counts as progress: importing takes more, and waiting for a message less.
_STEP: Final = 0.2
#: Seconds between two looks, as each reads the list of all processes.
_LOOK: Final = 1.0


@dataclass
class StartPatience:
    """``seconds`` without progress are waited, and ``most`` altogether. ``now`` is a clock that only goes forward."""

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
        """``progress`` gives a number that grows while the stack gets on, see ``progress_of``; it is asked once a second."""
        now = self.now()
        if now - self._looked >= _LOOK:
            self._looked, seen = now, progress()
            if seen >= self._seen + 1.0:
                self._seen, self._since = seen, now
        return now - self._since >= self.seconds or now - self._begun >= self.most


def progress_of(pid: int | None = None) -> float:
    """Of the process ``pid`` (this one) and all below it: 1 for each step of processor time that they have used. Blocks."""
    return cpu_seconds(pid or os.getpid()) / _STEP
