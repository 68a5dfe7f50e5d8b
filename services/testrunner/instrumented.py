"""Runs one command with a reporter beside it, in one workspace, and gathers what it told."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.ecosystems.pipe import PIPE, report_pipe
from gatewright.ecosystems.port import Framework, Order, Purpose, TreeFiles, write_instruments
from gatewright.ecosystems.records import Told, read_records
from gatewright.sandbox import Additions, Completed, Sandbox, SandboxLimits
from gatewright.sandbox.port import ADDITIONS_INSIDE
from gatewright.services.testrunner.place import CommandPlace
from gatewright.workspace import Workspace


async def build_earlier(place: CommandPlace, workspace: Workspace, sandbox: Sandbox) -> None:
    """Build in ``workspace`` what the contract's earlier commands have built in that of ``place``.

    What fails here makes the command after it fail, or tell no tests. Raises SandboxError, ConfigurationError.
    """
    for argv in place.earlier:
        await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A command, the framework that it starts, and how it is run; the same for each of its workspaces."""

    argv: tuple[str, ...]
    framework: Framework
    sandbox: Sandbox
    prefix: Path | None
    limits: SandboxLimits

    async def run(
        self,
        workspace: Workspace,
        tree: TreeFiles,
        purpose: Purpose,
        *,
        only: Sequence[str] = (),
        planted: Sequence[str] = (),
    ) -> tuple[Completed, Told]:
        """How it ended and what it told; ``tree`` is what ``workspace`` shows.

        Raises SandboxError, ConfigurationError, GitError.
        """
        folder = workspace.task / f"additions-{uuid.uuid4().hex}"
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)  # whatever the umask
        confined = self.sandbox.name != "none"
        pipe_inside = f"{ADDITIONS_INSIDE if confined else folder}/{PIPE}"
        files_inside = workspace.path_inside if confined or workspace.path is None else str(workspace.path)
        order = Order(purpose, secrets.token_hex(16), pipe_inside, tuple(only), tuple(planted), files_inside)
        instruments = await self.framework.instruments(self.argv, tree, order)
        await asyncio.to_thread(write_instruments, folder, instruments)
        with report_pipe(folder) as pipe:
            completed = await self.sandbox.run(
                self.argv,
                workspace=workspace,
                prefix=self.prefix,
                limits=self.limits,
                additions=Additions(folder, instruments.variables),
            )
            lines, overflow = pipe.lines(), pipe.overflow
        told = await asyncio.to_thread(read_records, lines, order.token)
        told.overflow |= overflow
        return completed, told
