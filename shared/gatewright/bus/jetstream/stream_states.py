"""The streams that currently accept no messages, as far as this process has seen from its own publishes.

A stream that met a full disk does not answer publishes until its server restarts, even after space is freed. No call of the
JetStream API reports this, so it is derived from the outcome of publishes. This module sends no requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gatewright.bus.port import NO_ANSWER
from gatewright.errors import BusError
from gatewright.host_errors import BUS_FULL

#: Seconds after which a refusal is out of date. Silence lasts until the server restarts or accepts a message.
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
            words = "takes no messages: look for a write error in the server's log, free disk space, restart the server"
            self._failures[stream] = _Failure(words, silent=True, at=self.now())
        elif error.reason == BUS_FULL:
            self._failures[stream] = _Failure(error.message, silent=False, at=self.now())

    def forget_states(self) -> None:
        """Forget all states: after a reconnect, they describe another server or the time before a restart."""
        self._failures.clear()

    def failing(self) -> dict[str, str]:
        """Stream -> what is wrong with it."""
        return {
            f"stream {name}": failure.cause
            for name, failure in self._failures.items()
            if failure.silent or self.now() < failure.at + REFUSAL_HOLDS
        }
