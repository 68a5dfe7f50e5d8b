"""Settings of the worker, from ``GATEWRIGHT_*``."""

from __future__ import annotations

import os
import socket

from pydantic import Field

from gatewright.service.command_settings import CommandSettings


def _own_name() -> str:
    return f"worker-{socket.gethostname()}-{os.getpid()}"


class Settings(CommandSettings):
    """``agent_id`` stands in results: by default host and process, so that two workers can be told apart in a bundle."""

    agent_id: str = Field(default_factory=_own_name, min_length=1)
