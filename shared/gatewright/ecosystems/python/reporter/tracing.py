"""Which test runs which of the lines that were asked about; without these nothing is traced.

A program that is traced already (a debugger, a measurement of coverage) is left alone: then nothing is known.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from . import channel


class Tracer:
    """Watches the ``order``'s lines; what ran since it was asked last is told by ``take``."""

    def __init__(self, order: channel.Order) -> None:
        self._order = order
        self._files: dict[str, tuple[str, frozenset[int]] | None] = {}
        self._now: set[tuple[str, int]] = set()

    def start(self) -> None:
        """From now on, in every thread."""
        if self._order.lines and sys.gettrace() is None:
            threading.settrace(self._called)
            sys.settrace(self._called)

    def take(self) -> list[tuple[str, int]]:
        """The lines that ran, sorted; forgotten then."""
        ran, self._now = sorted(self._now), set()
        return ran

    def _called(self, frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG002 - Python's
        name = frame.f_code.co_filename
        try:
            wanted = self._files[name]
        except KeyError:
            wanted = self._files[name] = self._wanted(name)
        if wanted is None:
            return None
        path, lines = wanted

        def ran(frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG001 - Python's
            if frame.f_lineno in lines:
                self._now.add((path, frame.f_lineno))
            return ran

        return ran

    def _wanted(self, name: str) -> tuple[str, frozenset[int]] | None:
        path = self._order.here(name)
        return (path, frozenset(self._order.lines[path])) if path in self._order.lines else None
