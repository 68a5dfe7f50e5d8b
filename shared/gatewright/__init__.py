"""Gatewright: governed software delivery by agents, over a NATS message bus.

``from gatewright import Client`` is the way in for publishers; the rest of the package is for the services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gatewright.version import __version__

if TYPE_CHECKING:
    from gatewright.client import Client, SyncClient


__all__ = ["Client", "SyncClient", "__version__"]


def __getattr__(name: str) -> Any:
    # Seven processes import this package; only publishers pay for the client.
    if name in ("Client", "SyncClient"):
        from gatewright import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
