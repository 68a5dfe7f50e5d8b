"""Settings of the reviewer, from ``GATEWRIGHT_*``."""

from __future__ import annotations

from pydantic import Field

from gatewright.service.settings import ServiceSettings


class Settings(ServiceSettings):
    """``agent_id`` signs the reviews; ``max_file_bytes`` is the size from which on a file is too large to be source.

    ``review_seconds``: a change that cannot be judged within them fails its review (``review_limit``).
    """

    agent_id: str = Field(default="reviewer-1", min_length=1)
    max_file_bytes: int = Field(default=1 << 20, ge=1)
    review_seconds: float = Field(default=60.0, gt=0)
