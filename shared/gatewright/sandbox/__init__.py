"""Bubblewrap: commands from outside run here, without network, without secrets, within limits."""

from __future__ import annotations

from typing import Literal

from gatewright.sandbox.account import SandboxAccount, sandbox_account
from gatewright.sandbox.argv import parse_command
from gatewright.sandbox.limits import SandboxLimits
from gatewright.sandbox.port import (
    DOOR_PORT,
    HOME_INSIDE,
    Additions,
    Completed,
    Furnishing,
    Sandbox,
    SandboxReport,
    SandboxSession,
    TalkingSandbox,
    WorkingFolder,
)

__all__ = [
    "DOOR_PORT",
    "HOME_INSIDE",
    "Additions",
    "Completed",
    "Furnishing",
    "Sandbox",
    "SandboxAccount",
    "SandboxLimits",
    "SandboxReport",
    "SandboxSession",
    "TalkingSandbox",
    "WorkingFolder",
    "make_sandbox",
    "parse_command",
    "sandbox_account",
]


def make_sandbox(mode: Literal["bubblewrap", "none"]) -> Sandbox:
    """Return the sandbox of ``mode``, without starting or checking anything. ``none`` is an explicit choice of the operator."""
    if mode == "none":
        from gatewright.sandbox.unconfined import Unconfined

        return Unconfined()
    from gatewright.sandbox.bubblewrap import BubblewrapSandbox

    return BubblewrapSandbox()
