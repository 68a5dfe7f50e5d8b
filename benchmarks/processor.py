"""Processor time of processes, from /proc: what a benchmark cost, beside how long it took."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


def used(pids: Iterable[int]) -> float:
    """Seconds that these processes, and those of their children that have ended, have had so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def used_with_descendants(pid: int) -> float:
    """The same for one process and all below it that live, such as git processes that stay."""
    below = [pid]
    total = 0.0
    for each in below:  # grows
        with contextlib.suppress(OSError):
            total += used([each])
            below += _children(each)
    return total


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


class Descendants:
    """Processor time of everything below this process while the context is open, sampled.

    A process of a sandbox is not counted among the children of who started it. One that lives less than a sample is missed,
    unless its parent has waited for it.
    """

    def __init__(self, every: float = 0.05) -> None:
        self._every = every
        self._seen: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """So far."""
        return sum(self._seen.values()) / _TICKS

    def _sample(self) -> None:
        """From this process downwards: reading all that a machine runs would itself be a good part of what is measured."""
        while not self._over.wait(self._every):
            left = _children(os.getpid())
            for pid in left:  # grows
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._seen[pid] = int(fields[11]) + int(fields[12])
                left += _children(pid)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for place in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (place / "children").read_text().split())
    return found
