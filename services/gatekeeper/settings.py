"""Settings of the gatekeeper, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from gatewright.evidence.keys import home_key
from gatewright.resources import policy_directory
from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``policies`` is a folder that no agent can write to; ``key`` is the file of the signing key, made when it is missing."""

    policies: Path = Field(default_factory=policy_directory)
    key: Path | None = None
    #: Inputs that are judged at the same time.
    parallel_inputs: int = Field(default=16, ge=1, le=256)

    @property
    def signing_key(self) -> Path:
        return self.key or home_key(self.home)
