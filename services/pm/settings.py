"""Settings of the pm, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pydantic import Field

from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``agent_id`` is the registered agent that owns the contracts."""

    agent_id: str = Field(default="pm-1", min_length=1)
