"""Resource limits of a command, and those that the kernel enforces.

The sandbox's process watches time, output and total memory; memory per process, file size, process count and open files are
resource limits of the command itself. ``prlimit`` (util-linux) sets them inside, last before the command: so the process
count is that of the sandbox, and its own set-up is not limited.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
from dataclasses import dataclass
from typing import Final

from gatewright.errors import SandboxError

_OPEN_FILES: Final = 4096


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Seconds of wall clock; processor seconds of each process; bytes; a count of processes and threads.

    ``memory_bytes`` bounds each process's private writable memory and the proportional memory of all of them together;
    ``file_bytes`` one file; ``output_bytes`` standard output and error together, beyond which it is discarded, and 32 times
    as much ends the command; ``tmp_bytes`` all of the private /tmp.
    """

    wall_seconds: float = 300
    memory_bytes: int = 4 << 30
    processes: int = 512
    file_bytes: int = 1 << 30
    output_bytes: int = 8 << 20
    tmp_bytes: int = 1 << 30
    cpu_seconds: float | None = None

    def facts(self) -> dict[str, str]:
        """Return the limits for reports; seconds are recorded with each command."""
        named = {
            "memory": self.memory_bytes,
            "processes": self.processes,
            "file": self.file_bytes,
            "output": self.output_bytes,
            "tmp": self.tmp_bytes,
        }
        cpu = {} if self.cpu_seconds is None else {"cpu": f"{self.cpu_seconds:g}"}
        return {f"limit of {name}": str(value) for name, value in (named | cpu).items()}


def restricting(limits: SandboxLimits, *, count_processes: bool) -> tuple[str, ...]:
    """Return the argv prefix that runs the rest within ``limits``.

    ``count_processes`` is False outside a separate user namespace: there the kernel would count all processes of the
    account. RLIMIT_DATA, not RLIMIT_AS: node and other JIT runtimes reserve far more address space than they use. A
    program, not a call on the waiting process: root in a container has no CAP_SYS_RESOURCE, and may not set the limits of
    another account. Raises SandboxError without prlimit.
    """
    program = shutil.which("prlimit")
    if program is None:
        raise SandboxError("prlimit (util-linux) is missing, so commands cannot be limited")
    cpu = int(limits.wall_seconds * (os.cpu_count() or 1)) + 10
    wanted = {
        "data": (resource.RLIMIT_DATA, limits.memory_bytes),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "nofile": (resource.RLIMIT_NOFILE, _OPEN_FILES),
        "core": (resource.RLIMIT_CORE, 0),
        "cpu": (resource.RLIMIT_CPU, cpu if limits.cpu_seconds is None else min(cpu, math.ceil(limits.cpu_seconds))),
    }
    if count_processes:
        wanted["nproc"] = (resource.RLIMIT_NPROC, limits.processes)
    return (program, *(f"--{name}={_at_most(which, value)}" for name, (which, value) in wanted.items()), "--")


def _at_most(which: int, value: int) -> int:
    """Return the value, or our own hard limit if lower, which cannot be raised."""
    hard = resource.getrlimit(which)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
