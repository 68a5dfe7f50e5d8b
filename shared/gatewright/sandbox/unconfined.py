"""Commands without a sandbox, for an operator whose own policy sets ``sandbox: none``.

They still have a clean environment, limits on each process, a wall clock, an output limit, and an end that reaches every
descendant which does not hide on purpose. A command can read and write everything that the service's account can.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from gatewright.errors import ConfigurationError, SandboxError
from gatewright.sandbox.argv import check_argv
from gatewright.sandbox.environments import Shown, environments_of
from gatewright.sandbox.images import UNAVAILABLE
from gatewright.sandbox.limits import SandboxLimits, restricting
from gatewright.sandbox.port import SOURCE_DATE_EPOCH, Additions, Completed, SandboxReport, WorkingFolder
from gatewright.sandbox.process.start_barrier import StartBarrier, behind_gate
from gatewright.sandbox.process.supervision import NotStartedError, Started, start, supervise
from gatewright.sandbox.system import environment

#: Marks every descendant; daemons that left the process group are found by it.
_MARK: Final = "GATEWRIGHT_COMMAND"
_PAUSE_SECONDS: Final = 0.01


class Unconfined:
    """The sandbox that is none. The bundle records its name."""

    name: Literal["none"] = "none"

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: WorkingFolder,
        prefix: Shown,
        limits: SandboxLimits,
        source_date_epoch: int = SOURCE_DATE_EPOCH,
        additions: Additions | None = None,
    ) -> Completed:
        """See ``Sandbox.run``. The workspace must be a plain directory."""
        check_argv(argv)
        if workspace.path is None:
            raise ConfigurationError(
                "without a sandbox an overlay workspace cannot be shown; open workspaces with overlay=False"
            )
        mark = secrets.token_hex(16)
        shown = environments_of(prefix)
        if shown.image is not None:
            words = f"without a sandbox no command sees the image {shown.image.record.image}"
            raise ConfigurationError(words, code=UNAVAILABLE)
        if mounts := shown.mounts():
            raise ConfigurationError(f"without a sandbox no environment can be shown at {mounts[0][1]}")
        variables = environment(
            shown, home=str(workspace.scratch), source_date_epoch=source_date_epoch, workspace=str(workspace.path)
        )
        if additions is not None:
            variables |= additions.variables_at(str(additions.folder), variables["PATH"])
        with StartBarrier() as gate:
            command = behind_gate((*restricting(limits, count_processes=False), *argv))
            process = start(command, gate, cwd=workspace.path, env={**variables, _MARK: mark})
            try:
                return await supervise(Started(process, gate, _Marked(process.pid, mark)), limits, disk=workspace.path)
            except NotStartedError as error:
                raise SandboxError(f"the command cannot be started: {error}") from error

    async def probe(self) -> SandboxReport:
        """See ``Sandbox.probe``. There is nothing to check."""
        return SandboxReport(
            available=True, facts={"sandbox": "none", "network": "the host's", "files": "all that the service may see"}
        )


class _Marked:
    """A process group, and the processes that left it but still carry the mark."""

    def __init__(self, group: int, mark: str) -> None:
        self._group = group
        self._mark = f"{_MARK}={mark}".encode()

    async def grasp(self, pid: int) -> None:
        """The group and the mark are all there is to hold."""

    def attempts(self) -> None:
        """Return nothing: the network is the host's."""

    def members(self) -> list[int]:
        """The processes that carry the mark."""
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and self._carries_mark(entry.name)]

    async def end(self) -> None:
        """Kill until none is found."""
        while self._kill():  # noqa: ASYNC110 - the end of processes that are not our children is not reported
            await asyncio.sleep(_PAUSE_SECONDS)

    def _kill(self) -> bool:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)
        found = self.members()
        for number in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return bool(found)

    def _carries_mark(self, number: str) -> bool:
        """False for zombies too: they have no environment any more."""
        try:
            return self._mark in Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
