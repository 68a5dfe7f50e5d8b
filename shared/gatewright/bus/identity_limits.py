"""Limits that an operator sets for one identity: connections, subscriptions, bytes of a message.

They are stored in ``limits.json`` beside the identities. The servers' configuration is rendered from both, and the server
enforces them. ``publishers.json`` limits what publishers may order (rates, quotas, sizes of documents).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gatewright.bus.identities import RESIDENTS
from gatewright.bus.permissions import AccountLimits, access_of
from gatewright.bus.subjects import MAX_MESSAGE_BYTES
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

FILE = "limits.json"
#: The smallest values that work: one connection per process, the subjects it receives, one piece of an artifact.
_LEAST = {"connections": 1, "subscriptions": 50, "payload": 1 << 20}
_MOST = {"connections": 65_536, "subscriptions": 65_536, "payload": MAX_MESSAGE_BYTES}


class IdentityLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operator's limits for one identity; None keeps the default. ``payload``: bytes of one message, with its headers."""

    connections: int | None = None
    subscriptions: int | None = None
    payload: int | None = None

    def over(self, shipped: AccountLimits) -> AccountLimits:
        """Return ``shipped`` with these limits applied. A payload that is bounded by default keeps its bound."""
        connections = self.connections or shipped.connections
        subscriptions = self.subscriptions or shipped.subscriptions
        return AccountLimits(connections, subscriptions, shipped.payload or self.payload or 0)

    def check(self, identity: str) -> None:
        """Raises MalformedError (``identity_limit_invalid``) when no process could work so."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= _MOST[name]:
                words = f"{name} of {identity}: {value} is not between {least} and {_MOST[name]}"
                raise MalformedError(words, code="identity_limit_invalid")
        if identity in RESIDENTS:
            others = " and ".join(sorted(RESIDENTS - {identity}))
            words = f"{identity} shares an account of the server with {others}: it has no limits of its own"
            raise MalformedError(words, code="identity_limit_invalid")


def read(directory: Path) -> dict[str, IdentityLimits]:
    """Return the limits of a folder by identity. Raises ConfigurationError (``identity_limits_unreadable``)."""
    path = directory / FILE
    try:
        found = read_json(path.read_bytes(), dict[str, IdentityLimits])
        for identity, limits in found.items():
            limits.check(identity)
    except FileNotFoundError:
        return {}
    except (OSError, UnreadableDocumentError, MalformedError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error}: put it right with `gatewright identities limit`, or remove it",
            code="identity_limits_unreadable",
        ) from error
    return found


def write(directory: Path, limits: Mapping[str, IdentityLimits]) -> None:
    """The whole file or none. Raises OSError."""
    path = directory / FILE
    part = path.with_name(f".{FILE}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(dict(sorted(limits.items())))) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def in_force(identity: str, limits: Mapping[str, IdentityLimits]) -> AccountLimits:
    """Return the limits that a server configured from ``limits`` enforces for an identity."""
    return limits.get(identity, IdentityLimits()).over(access_of(identity).limits)
