"""The processes of a worker and of the agents in its boxes, from /proc: whose memory is whose, and whether one still lives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True)
class Memory:
    """Bytes, proportional: what several processes share counts for each in part. ``agents``: of programs of agents."""

    ours: int
    agents: int
    running: int


def memory_of(pid: int, installation: Path) -> Memory:
    """Of a process and all that descends from it."""
    ours = agents = running = 0
    for each in (pid, *descendants(pid)):
        size = _pss(each)
        if is_agent(each, installation):
            agents += size
            running += 1
        else:
            ours += size
    return Memory(ours, agents, running)


def agents_of(pid: int, installation: Path) -> int:
    """How many processes below ``pid`` are programs of agents."""
    return sum(is_agent(each, installation) for each in descendants(pid))


def is_agent(pid: int, installation: Path) -> bool:
    """By the program that it runs: the walls around it name the installation, too, on their command line."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().is_relative_to(installation)
    return False


def descendants(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        for task in _folders(Path(f"/proc/{waiting.pop()}/task")):
            with contextlib.suppress(OSError):
                for word in (task / "children").read_text().split():
                    waiting.append(int(word))
                    yield int(word)


def _folders(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError:
        return []


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * _KIB for line in lines if line.startswith("Pss:")), 0)
