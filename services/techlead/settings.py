"""Settings of the tech lead, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pydantic import Field

from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``agent_id`` is the registered agent that owns the shards."""

    agent_id: str = Field(default="techlead-1", min_length=1)
