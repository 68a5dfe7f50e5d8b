"""Where the commands of one task run. Types only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatewright.sandbox import SandboxLimits
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """``workspace`` shows ``candidate`` and the files ``provided`` beside it.

    ``until``: when, by ``time.monotonic``, the run has no time left; None where it has no such budget.

    ``environment`` is the digest of what lies below ``prefix`` and of the provided files, empty for none.
    """

    candidate: RebuiltCandidate
    workspace: Workspace
    prefix: Path | None
    limits: SandboxLimits
    environment: str
    provided: Mapping[bytes, bytes]
    until: float | None = None
