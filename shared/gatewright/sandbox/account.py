"""The account that commands run as.

A service that was started as root does not run commands as root: the kernel counts no processes for uid 0, lets it read
what only root may read in /proc, and a flaw in a namespace would compromise the machine. They run as a separate account,
which owns their files. An unprivileged service runs them as itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

#: In a range that Debian's policy reserves and no system assigns, and below 65536, so that it exists in every container.
_SANDBOX_ID: Final = 65_432


@dataclass(frozen=True, slots=True)
class SandboxAccount:
    """A user and group id on the host. ``switched`` if they are not the caller's own."""

    uid: int
    gid: int
    switched: bool


def sandbox_account() -> SandboxAccount:
    """The account that commands run as on this host."""
    if os.geteuid() == 0:
        return SandboxAccount(_SANDBOX_ID, _SANDBOX_ID, switched=True)
    return SandboxAccount(os.geteuid(), os.getegid(), switched=False)
