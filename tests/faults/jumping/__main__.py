"""Runs the service that ``JUMPING_SERVICE`` names, its wall clock off by the seconds in the file that ``JUMPING_CLOCK`` names.

The monotonic clock is left alone: that is what a correction of the time does to a machine.
"""

from __future__ import annotations

import os
import runpy
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gatewright.clock import SystemClock


def install(file: Path) -> None:
    """Move every wall clock of this process that Python code can read."""
    machine, machine_ns = time.time, time.time_ns

    def offset() -> float:
        return float(file.read_text())

    def now(self: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=offset())

    time.time = lambda: machine() + offset()
    time.time_ns = lambda: machine_ns() + int(offset() * 1e9)
    SystemClock.now = now  # type: ignore[method-assign] # that is the point


if __name__ == "__main__":
    install(Path(os.environ["JUMPING_CLOCK"]))
    runpy.run_module(os.environ["JUMPING_SERVICE"], run_name="__main__", alter_sys=True)
