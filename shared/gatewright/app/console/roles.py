"""What the people of a sign-in may do: look, send on signed decisions, or submit runs besides. Which token is whose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from gatewright.app.http_access import read_token
from gatewright.errors import ConfigurationError

#: Each may do what those before it may. The bus's identities behind them: a watcher's and an observer's, an approver's, a
#: publisher's.
ConsoleRole = Literal["viewer", "approver", "operator"]
CONSOLE_ROLES: Final[tuple[ConsoleRole, ...]] = get_args(ConsoleRole)
#: Of people who need no token, on loopback: a decision is nothing without its signature.
WITHOUT_TOKEN: Final[ConsoleRole] = "approver"  # noqa: S105 - a role


def may(role: ConsoleRole, wanted: ConsoleRole) -> bool:
    """Whether a role may do what ``wanted`` is for."""
    return CONSOLE_ROLES.index(role) >= CONSOLE_ROLES.index(wanted)


def read_tokens(given: Sequence[str]) -> dict[str, ConsoleRole]:
    """By token its role, of ``[ROLE=]FILE``; without a role it is an approver's.

    Raises ConfigurationError, also for one token of two roles.
    """
    found: dict[str, ConsoleRole] = {}
    for each in given:
        name, _, file = each.rpartition("=") if each.partition("=")[0] in CONSOLE_ROLES else ("", "", each)
        role = next((role for role in CONSOLE_ROLES if role == name), WITHOUT_TOKEN)
        token = read_token(Path(file))
        if token in found:
            raise ConfigurationError(f"{file} holds a token that another role has", code="configuration_invalid")
        found[token] = role
    return found
