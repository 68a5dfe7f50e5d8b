"""Failures made on purpose: a server that ends and comes back, a network that cuts and swallows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gatewright.errors import UnavailableError
from tests.unauthenticated_nats import OpenServer

PASSWORD = "a-secret-word"


async def restart(server: OpenServer, directory: Path, *, password: str = PASSWORD, kill: bool = False) -> OpenServer:
    """The same server again, on the same port and files; ``kill``: without a chance to write anything."""
    if kill:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(UnavailableError, match="ended by itself"):
            await server.ended()
    await server.stop()
    return await OpenServer.open(directory, port=server.port, password=password)
