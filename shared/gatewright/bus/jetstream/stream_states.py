"""Which streams of the server take messages, as far as this process has found out by sending some.

A stream that met a full disk answers to nothing that is to be stored, also when there is room again, until its server is
restarted; no call of the JetStream API tells of it. So it is known from what becomes of messages. It asks nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gatewright.bus.port import NO_ANSWER
from gatewright.errors import BusError
from gatewright.host_errors import BUS_FULL

#: Seconds after which a refusal says nothing about now. Silence stays: it ends with the server, or with a message taken.
REFUSAL_HOLDS = 60.0


@dataclass(frozen=True, slots=True)
class _Failure:
    cause: str
    silent: bool
    at: float


@dataclass
class StreamStates:
    """``now``: monotonic seconds."""

    now: Callable[[], float]
    _failures: dict[str, _Failure] = field(default_factory=dict)

    def took(self, stream: str) -> None:
        """A message was stored, or found to be there."""
        self._failures.pop(stream, None)

    def failed(self, stream: str, error: BusError, *, connected: bool) -> None:
        """A message was not stored. ``connected``: the server was there, so silence was the stream's."""
        if error.reason == NO_ANSWER and connected:
            words = "takes no messages: look for a write error in the server's log, make room, restart the server"
            self._failures[stream] = _Failure(words, silent=True, at=self.now())
        elif error.reason == BUS_FULL:
            self._failures[stream] = _Failure(error.message, silent=False, at=self.now())

    def forget_states(self) -> None:
        """The connection was made anew: what was found out is about another server, or about this one before its restart."""
        self._failures.clear()

    def failing(self) -> dict[str, str]:
        """Stream -> what is wrong with it."""
        return {
            f"stream {name}": failure.cause
            for name, failure in self._failures.items()
            if failure.silent or self.now() < failure.at + REFUSAL_HOLDS
        }
