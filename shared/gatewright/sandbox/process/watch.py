"""Watching of what the kernel does not limit for a process tree: total memory, process count, disk space.

It only measures and names an exceeded limit; it kills nothing. Memory that no process has mapped (files in /tmp, shared
memory segments) is not visible here: /tmp has a limit of its own, the limits of the service's container cover the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gatewright.sandbox.limits import SandboxLimits
from gatewright.sandbox.port import Stopped

#: A command is stopped before the disk of its workspace is full: at 1 GiB or 5 % of it, whichever is less; or at 5 % of its
#: inodes.
_SPARE_BYTES: Final = 1 << 30
_SPARE_SHARE: Final = 20
#: Processes of the sandbox itself that may be among those that are counted.
_OURS: Final = 4
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def disk_nearly_full(directory: Path) -> bool:
    """Return whether the file system of ``directory`` has no space for another command."""
    state = os.statvfs(directory)
    spare = min(_SPARE_BYTES, state.f_blocks * state.f_frsize // _SPARE_SHARE)
    return state.f_bavail * state.f_frsize < spare or state.f_favail < state.f_files // _SPARE_SHARE


def exceeded_limit(processes: Sequence[int], limits: SandboxLimits, disk: Path | None) -> Stopped:
    """Return which of ``limits`` these processes exceed together, or whether ``disk`` is nearly full."""
    if disk is not None and disk_nearly_full(disk):
        return "disk"
    if len(processes) > limits.processes + _OURS:
        return "processes"
    # Resident memory counts what forked processes share once for each, so it is only the first, cheap look.
    if sum(map(_resident, processes)) > limits.memory_bytes and sum(map(_proportional, processes)) > limits.memory_bytes:
        return "memory"
    return ""


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return _resident(pid)
    return 0
