"""Processor time of processes, from /proc: what a benchmark cost, beside how long it took."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def used(pids: Iterable[int]) -> float:
    """Seconds that these processes, and those of their children that have ended, have had so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


@dataclass(frozen=True)
class Machine:
    """All processors of this machine: ticks so far, busy ones and all."""

    busy: int
    all: int

    @classmethod
    def now(cls) -> Machine:
        user, nice, system, idle, waiting, *others = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
        busy = user + nice + system + sum(others)
        return cls(busy, busy + idle + waiting)

    def share_since(self, before: Machine) -> float:
        """How busy it has been, 0 to 1, by this system or by others."""
        return (self.busy - before.busy) / max(1, self.all - before.all)
