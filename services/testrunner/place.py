"""Where the commands of one task run. Types only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gatewright.sandbox import SandboxLimits
from gatewright.sandbox.environments import Environments
from gatewright.services.testrunner.known_environments import at_once
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace
from gatewright.workspace.bytecode import Bytecode


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """``workspace`` shows ``candidate`` and the files ``provided`` beside it.

    ``earlier`` are the contract's commands before the present one that build something: every further workspace needs them.
    ``until``: when, by ``time.monotonic``, the run has no time left; None where it has no such budget.
    ``environment`` is the digest of what lies below ``prefix`` and of the provided files, empty for none; nothing is kept by it
    before ``confirmed`` has returned.
    ``compiled`` is bytecode of the baseline's files, in every workspace of the command: else the control could be told by it.
    """

    candidate: RebuiltCandidate
    workspace: Workspace
    prefix: Environments | None
    limits: SandboxLimits
    environment: str
    provided: Mapping[bytes, bytes]
    earlier: tuple[tuple[str, ...], ...] = ()
    until: float | None = None
    compiled: Mapping[bytes, Bytecode] = field(default_factory=dict)
    confirmed: Callable[[], Awaitable[object]] = at_once
