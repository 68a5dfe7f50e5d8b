"""Process functions of the operating system: children that die with it, descendants, identity of a process.

Linux only, like the sandbox. It starts and lists processes; it does not decide which ones to start or restart.
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
#: Loaded before any fork: imports are forbidden between fork and exec.
_LIBC = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """The identity of a process: its number can be reused, but not its start time within a boot."""

    boot: str
    started: int


def identity(pid: int) -> Identity | None:
    """Return the identity of the live process with the number ``pid``; None without one (a zombie is not live)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    fields = _after_name(stat)
    return None if fields[0] in "ZX" else Identity(boot, int(fields[19]))


def dies_with_parent() -> Callable[[], None]:
    """Return a function for a child to call before exec: it requests SIGKILL when the parent ends.

    The parent is the thread that forks, so only a thread that lives as long as the process may start such children.
    """
    parent = os.getpid()

    def between_fork_and_exec() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before the request; the signal would then never arrive.
        if os.getppid() != parent:
            os._exit(1)

    return between_fork_and_exec


def adopt_orphans() -> Callable[[], None]:
    """Make orphaned descendants children of this process, so that none escapes.

    Returns a function that undoes it. An adopting process must reap each orphan, or it stays a zombie.
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
    """Return every live process below ``pid``, at any depth, except ``spared`` ones and those below these."""
    # A process that has ended and is not reaped has no identity, but its number is not reused yet.
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
    """Return the descendants of ``pid`` with their identities, to end them later even if their parent is gone."""
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
    """Kill all descendants of ``pid`` until none is left; for a process that has adopted its orphans.

    ``spared``: earlier children, which others must end, with all below them.
    """
    while remaining := descendants(pid, spared):
        for child in remaining:
            kill(child)
            reap(child)
        await asyncio.sleep(_SWEEP_PAUSE)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to one process; a missing process is no error."""
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
