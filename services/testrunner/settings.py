"""Settings of the test runner, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pydantic import Field

from gatewright.service.command_settings import CommandSettings


class Settings(CommandSettings):
    """``agent_id`` signs the reports."""

    agent_id: str = Field(default="testrunner-1", min_length=1)
