"""A PID namespace made by bubblewrap, as something that can be killed whole.

Process 1 of the namespace is the handle: when it dies the kernel kills all others, daemons and double forks included, and lets
it end only after them. It is killed by descriptor, not by number, and never before the number was seen to mean it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from gatewright.sandbox.gate import readable
from gatewright.sandbox.watch import descendants

#: bubblewrap writes this before its child may run, so there is nothing to wait for on a healthy host.
_TELL_SECONDS: Final = 5.0


class _Info(msgspec.Struct, rename="kebab"):
    child_pid: int
    pid_namespace: int


class Namespace:
    """``info`` is the reading end of what ``--info-fd`` writes; this object owns it until ``close``."""

    def __init__(self, process: subprocess.Popen[bytes], info: int) -> None:
        self._process = process
        self._info = info
        self._first: int | None = None
        self._number = 0
        os.set_blocking(info, False)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._info)
        if self._first is not None:
            os.close(self._first)

    async def grasp(self) -> None:
        """Get hold of process 1, so that it can be killed whatever happens. Nothing happens when it has ended."""
        if self._first is None and (told := await self._told()) is not None:
            self._first = _open_first(told)
            self._number = told.child_pid

    def members(self) -> list[int]:
        """Process 1 and all below it: whoever loses its parent becomes its child."""
        return descendants(self._number) if self._first is not None else []

    async def end(self) -> None:
        """Kill process 1 and wait until the kernel has ended all of the namespace."""
        await self.grasp()
        if self._first is None:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        await readable(self._first)

    async def _told(self) -> _Info | None:
        said = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TELL_SECONDS):
                while not said.rstrip().endswith(b"}"):
                    await readable(self._info)
                    part = os.read(self._info, 4096)
                    if not part:
                        return None
                    said += part
        try:
            return msgspec.json.decode(said, type=_Info)
        except msgspec.DecodeError:
            return None


def _open_first(told: _Info) -> int | None:
    """A descriptor of process 1; None when the number is free or belongs to somebody else by now."""
    try:
        descriptor = os.pidfd_open(told.child_pid)
    except ProcessLookupError:
        return None
    try:
        if Path(f"/proc/{told.child_pid}/ns/pid").stat().st_ino == told.pid_namespace:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
