"""Roles of signed-in people: view, also forward signed decisions, or also submit runs; and the tokens of each role."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from gatewright.app.http_access import read_token
from gatewright.errors import ConfigurationError

#: Each role includes those before it. The bus identities behind them: a watcher and an observer, an approver, a publisher.
ConsoleRole = Literal["viewer", "approver", "operator"]
CONSOLE_ROLES: Final[tuple[ConsoleRole, ...]] = get_args(ConsoleRole)
#: For people without a token, on loopback: a decision is worthless without its signature.
WITHOUT_TOKEN: Final[ConsoleRole] = "approver"  # noqa: S105 - a role


def may(role: ConsoleRole, wanted: ConsoleRole) -> bool:
    """Return whether a role includes ``wanted``."""
    return CONSOLE_ROLES.index(role) >= CONSOLE_ROLES.index(wanted)


def read_tokens(given: Sequence[str]) -> dict[str, ConsoleRole]:
    """Return the role of each token, from ``[ROLE=]FILE``; the default role is approver.

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
