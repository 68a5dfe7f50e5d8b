"""Comparison of permissions: the meaning of each shell permission, and the narrower of two. One table for all uses.

Independent of roles; the gatekeeper's policy decides what a role may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

from gatewright.contracts.vocabulary import Filesystem, Network, Shell

ApprovalPolicy = Literal["never", "on-request", "untrusted"]
P = TypeVar("P", bound=str)


@dataclass(frozen=True, slots=True)
class ShellMeaning:
    """The meaning of a shell permission: the agent's ``approval-policy`` (None: it gets no shell tool), and a description."""

    approval_policy: ApprovalPolicy | None
    words: str


#: Specification 6.1.2, the hard rule. Nothing else maps a shell permission.
SHELL_MEANINGS: Mapping[Shell, ShellMeaning] = MappingProxyType(
    {
        "deny": ShellMeaning(None, "no shell tool; every request is refused"),
        "never": ShellMeaning("never", "everything that needs an approval is refused"),
        "on-request": ShellMeaning("on-request", "approval on request; refused when there is none"),
        "untrusted": ShellMeaning("untrusted", "every command needs an approval"),
    }
)

#: Each value with all that are not wider. The shell's are not ordered: ``untrusted`` (ask about every command) and ``never``
#: (run what needs no approval, refuse the rest) each allow something that the other does not, and only share ``deny``.
FILESYSTEM_ORDER: Mapping[Filesystem, frozenset[Filesystem]] = MappingProxyType(
    {"read-only": frozenset({"read-only"}), "workspace-write": frozenset({"read-only", "workspace-write"})}
)
SHELL_ORDER: Mapping[Shell, frozenset[Shell]] = MappingProxyType(
    {
        "deny": frozenset({"deny"}),
        "never": frozenset({"deny", "never"}),
        "untrusted": frozenset({"deny", "untrusted"}),
        "on-request": frozenset({"deny", "never", "untrusted", "on-request"}),
    }
)
NETWORK_ORDER: Mapping[Network, frozenset[Network]] = MappingProxyType(
    {
        "deny": frozenset({"deny"}),
        "on-request": frozenset({"deny", "on-request"}),
        "allow": frozenset({"deny", "on-request", "allow"}),
    }
)


def approval_policy(shell: Shell | None) -> ApprovalPolicy | None:
    """The agent's ``approval-policy`` for a shell permission; one that is not given is ``deny`` (specification 6.1.2)."""
    return SHELL_MEANINGS[shell or "deny"].approval_policy


def narrower(order: Mapping[P, frozenset[P]], some: P, other: P) -> P:
    """The widest value that is wider than neither."""
    common = order[some] & order[other]
    return next(value for value in common if common == order[value])


def is_wider(order: Mapping[P, frozenset[P]], asked: P, granted: P) -> bool:
    """Return whether ``asked`` allows anything that ``granted`` does not."""
    return asked not in order[granted]
