"""Capability of this host to run commands: the probe result of roles with a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gatewright.contracts.vocabulary import NetworkAttempts
from gatewright.errors import SandboxError
from gatewright.sandbox import Sandbox
from gatewright.sandbox.port import NetworkAttempts as CountedAttempts
from gatewright.secrets.scanner import SecretScanner
from gatewright.workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class CommandHost:
    """The containment of commands goes into the role's reports. ``summary`` is for the log."""

    walls: dict[str, str]
    summary: dict[str, str]


def reported_attempts(counted: CountedAttempts | None) -> NetworkAttempts | None:
    """What a sandbox counted, as reports have it."""
    return None if counted is None else NetworkAttempts(ipv4=counted.ipv4, ipv6=counted.ipv6)


async def probe_commands(
    sandbox: Sandbox, workspaces: Workspaces, scanner: SecretScanner, limits: Mapping[str, str]
) -> CommandHost:
    """Try the sandbox, the workspaces and what looks for secrets.

    Raises SandboxError or ConfigurationError with the cause when they cannot be had.
    """
    report, _ = await asyncio.gather(sandbox.probe(), asyncio.to_thread(scanner.prepare))
    if not report.available:
        raise SandboxError(report.cause)
    made = {"sandbox": sandbox.name, "workspaces": await workspaces.prepare()}
    return CommandHost({**report.facts, **made, **limits}, {**made, "secret_scanner": scanner.name})
