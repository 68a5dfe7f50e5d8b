"""Connections of those who look at all runs: each call a new one, to the system that is there at that moment."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.session import attach_client
from gatewright.client.client import Client
from gatewright.errors import DeniedError


def ledger_readers(place: CommandContext) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """What connects to the system of ``place`` with an identity that reads the whole ledger.

    Connecting raises DeniedError (``identity_invalid``) for a publisher, UnavailableError (``no_stack``), BusError.
    """

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with attach_client(place.bus, place.home) as client:
            if not client.reads_ledger:
                words = "a publisher sees its own runs alone: give the seed of a watcher or an operator (GATEWRIGHT_NATS_SEED)"
                raise DeniedError(words, code="identity_invalid")
            yield client

    return connect
