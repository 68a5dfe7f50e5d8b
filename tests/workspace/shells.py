"""The type of the fixture ``shell``."""

from __future__ import annotations

from typing import Protocol

from gatewright.sandbox import Completed
from gatewright.workspace import Workspace


class Shell(Protocol):
    """Runs a script in a workspace; a script that fails is a failure of the test."""

    async def __call__(self, workspace: Workspace, script: str) -> Completed: ...
