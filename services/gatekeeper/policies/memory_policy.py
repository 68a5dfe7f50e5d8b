"""``memory.json``: how much memory of earlier runs on its repository a run receives. Without the file it receives none."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from gatewright.contracts.progress import MemoryBounds
from gatewright.policy_files import PolicyFile, PolicyModel


class MemoryPolicy(PolicyModel):
    """The newest ``entries`` runs, in at most ``max_bytes``; the oldest are dropped first."""

    version: Literal["1"]
    entries: int = Field(default=8, ge=1, le=32)
    max_bytes: int = Field(default=16384, ge=4096, le=65536)

    @property
    def bounds(self) -> MemoryBounds:
        return MemoryBounds(entries=self.entries, max_bytes=self.max_bytes)


MEMORY_FILE: Final = PolicyFile("memory.json", MemoryPolicy)
