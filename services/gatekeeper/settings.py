"""Settings of the gatekeeper, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from gatewright.resources import policy_directory
from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``policies`` is a folder that no agent can write to; ``keys`` holds the signing key."""

    policies: Path = Field(default_factory=policy_directory)
    keys: Path | None = None
    #: Inputs that are judged at the same time.
    parallel_inputs: int = Field(default=16, ge=1, le=256)
