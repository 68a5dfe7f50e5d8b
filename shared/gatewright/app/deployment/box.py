"""The box of a deployment: the files of one commit, one command, and the egress gateway as its only connection."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gatewright.app.deployment.policy import DeploymentEntry
from gatewright.app.gateway_clients import client_files, client_variables, read_output, while_served
from gatewright.egress.gateway import EgressGateway
from gatewright.git.mirror import Mirror
from gatewright.sandbox import DOOR_PORT, HOME_INSIDE, Furnishing, SandboxLimits
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.port import Stopped
from gatewright.workspace import Workspaces

_LIMITS: Final = SandboxLimits(memory_bytes=8 << 30, processes=2048, file_bytes=8 << 30, tmp_bytes=4 << 30)
#: Standard error belongs into the output where it was written.
_TOGETHER: Final = ("/bin/sh", "-c", 'exec "$@" 2>&1', "deployment")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and the first 8 MiB of its output. ``failure``: why it did not run to an end."""

    exit_code: int | None
    stopped: Stopped
    output: bytes
    failure: str = ""


async def run_boxed(
    entry: DeploymentEntry,
    mirror: Mirror,
    commit: str,
    variables: Mapping[str, str],
    gateway: EgressGateway | None,
) -> Ended:
    """Run the command of ``entry`` in the files of ``commit``. It reaches only ``gateway``. Nothing of it runs on afterwards.

    Raises:
        ConfigurationError: the environment must not be shown.
        SandboxError, UnavailableError: no box or no workspace can be made, or the gateway ended.
        GitError: the commit is missing.
    """
    furnishing = Furnishing(
        variables={**variables, **client_variables(HOME_INSIDE, DOOR_PORT)},
        files=client_files(gateway),
    )
    sandbox = BubblewrapSandbox()
    limits = replace(_LIMITS, wall_seconds=float(entry.timeout_sec))
    with tempfile.TemporaryDirectory(prefix="gatewright-deployment-") as folder:
        workspaces = Workspaces.for_sandbox(Path(folder), sandbox)
        async with workspaces.open(mirror, commit) as workspace:
            argv = (*_TOGETHER, *entry.command)
            opened = sandbox.session(argv, workspace=workspace, prefix=entry.environment, limits=limits, furnishing=furnishing)
            async with opened as session:
                session.finish()
                output = await while_served(gateway, session.door, read_output(session))
    return Ended(None if session.stopped else session.exit_code, session.stopped, output)
