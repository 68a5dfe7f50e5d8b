"""What the supervisor asks of the operating system: children that die with it, who descends from it, who a process is.

Linux only, as the sandbox is. It starts and counts processes; it does not decide which ones to start or to start again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_SWEEP_PAUSE = 0.005
#: Loaded before any fork: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """Which process a number meant: numbers are used again, start times since a boot are not."""

    boot: str
    started: int


def identity(pid: int) -> Identity | None:
    """Which process has the number ``pid`` now; None when none that lives does (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    fields = _after_name(stat)
    return None if fields[0] in "ZX" else Identity(boot, int(fields[19]))


def dies_with_parent() -> Callable[[], None]:
    """What a child does before it becomes another program: ask the kernel for SIGKILL when its parent ends.

    The parent is the thread that forks, so only a thread that lives as long as the process may start such children.
    """
    parent = os.getpid()

    def between_fork_and_exec() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before the request was made; then its end would never be told.
        if os.getppid() != parent:
            os._exit(1)

    return between_fork_and_exec


def adopt_orphans() -> Callable[[], None]:
    """From now on the descendants whose parents end become children of this process, so that none can slip away.

    Returns what makes the process as it was: a process that adopts has to ask for the end of each orphan, or it stays a zombie.
    """
    before = ctypes.c_int()
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def as_before() -> None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, before.value)

    return as_before


def own_children() -> Mapping[int, Identity]:
    """The children that this process has now, and who they are."""
    numbers = (child for child, parent in _parents() if parent == os.getpid())
    return {child: who for child in numbers if (who := identity(child)) is not None}


def descendants(pid: int, spared: Mapping[int, Identity] = MappingProxyType({})) -> frozenset[int]:
    """Every live process below ``pid``, however deep, but for those that are ``spared`` and what is below these."""
    # Who has ended, and waits to be asked for, has no identity any more: the number is not given out again yet.
    return _below(pid, _children(lambda child: child in spared and identity(child) in {None, spared[child]}))


def _children(spared: Callable[[int], bool] = lambda _: False) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        if not spared(child):
            children.setdefault(parent, []).append(child)
    return children


def _below(pid: int, children: Mapping[int, list[int]]) -> frozenset[int]:
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return frozenset(found)


def snapshot(pid: int) -> dict[int, Identity]:
    """The descendants of ``pid`` with who they are, to be ended later even if their parent is gone by then."""
    return snapshots([pid])[pid]


def snapshots(pids: Iterable[int]) -> dict[int, dict[int, Identity]]:
    """``snapshot`` of each, by one look at all processes of the host."""
    children = _children()
    return {pid: {child: who for child in _below(pid, children) if (who := identity(child)) is not None} for pid in pids}


def cpu_seconds(pid: int) -> float:
    """Processor time that the process ``pid`` and all that lives below it have used."""
    return sum(_ticks(each) for each in (pid, *descendants(pid))) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    try:
        fields = _after_name(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace"))
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def kill_all(processes: dict[int, Identity]) -> None:
    """SIGKILL those that still are who they were."""
    for pid, who in processes.items():
        if identity(pid) == who:
            kill(pid)


async def end_descendants(pid: int, spared: Mapping[int, Identity] = MappingProxyType({})) -> None:
    """SIGKILL whatever still descends from ``pid`` until nothing does; for a process that has adopted its orphans.

    ``spared``: children from before, which are another's to end, with all that is below them.
    """
    while remaining := descendants(pid, spared):
        for child in remaining:
            kill(child)
            reap(child)
        await asyncio.sleep(_SWEEP_PAUSE)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to one process; that it is gone already is what was wanted."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap(pid: int) -> None:
    """Take the exit status of a child that no task waits for, so that it does not stay a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # A process may end between the listing and the reading.
            with contextlib.suppress(OSError):
                stat = Path(entry.path, "stat").read_text("utf-8", "replace")
                yield int(entry.name), int(_after_name(stat)[1])


def _after_name(stat: str) -> list[str]:
    """The fields of ``/proc/<pid>/stat`` from the state on; the name before may hold blanks and brackets."""
    return stat[stat.rindex(")") + 2 :].split()
