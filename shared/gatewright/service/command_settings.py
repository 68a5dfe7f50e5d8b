"""Settings of a role that runs commands: limits of one command. The contract sets its time, up to a day."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import CommandLimits
from gatewright.sandbox.limits import SandboxLimits
from gatewright.service.settings import ServiceSettings

_MIB = 1 << 20
_DEFAULT = SandboxLimits()


def task_limits(limits: SandboxLimits, task: TaskContract, seconds: float) -> SandboxLimits:
    """Return the limits of one command of a task: the process's own, or lower ones of the contract."""
    asked = task.limits or CommandLimits()
    return replace(
        limits,
        wall_seconds=seconds,
        cpu_seconds=asked.cpu_sec,
        memory_bytes=min(limits.memory_bytes, asked.memory_bytes or limits.memory_bytes),
        processes=min(limits.processes, asked.processes or limits.processes),
    )


class CommandSettings(ServiceSettings):
    """The operator's limits (docs/sandbox.md); those that held are written into the bundle."""

    #: Bytes of private writable memory of one process, and of all processes of a command together.
    limit_memory_bytes: int = Field(default=_DEFAULT.memory_bytes, ge=64 * _MIB)
    #: Processes and threads of one command.
    limit_processes: int = Field(default=_DEFAULT.processes, ge=8, le=1 << 20)
    #: Bytes of one file.
    limit_file_bytes: int = Field(default=_DEFAULT.file_bytes, ge=_MIB)
    #: Bytes of standard output and error together; they are held in memory.
    limit_output_bytes: int = Field(default=_DEFAULT.output_bytes, ge=4096, le=256 * _MIB)
    #: Bytes of /tmp and of /dev/shm, each.
    limit_tmp_bytes: int = Field(default=_DEFAULT.tmp_bytes, ge=_MIB)

    def limits(self) -> SandboxLimits:
        """The limits of one command; the caller sets its seconds."""
        return SandboxLimits(
            memory_bytes=self.limit_memory_bytes,
            processes=self.limit_processes,
            file_bytes=self.limit_file_bytes,
            output_bytes=self.limit_output_bytes,
            tmp_bytes=self.limit_tmp_bytes,
        )
