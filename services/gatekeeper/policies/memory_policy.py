"""``memory.json``: how much of earlier runs on its repository a run is told. Without the file it is told nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from gatewright.contracts.progress import MemoryBounds
from gatewright.policy_files import PolicyModel, parse_policy, policy_path, read_policy

MEMORY_FILE: Final = "memory.json"


class MemoryPolicy(PolicyModel):
    """The newest ``entries`` runs, in at most ``max_bytes``; the oldest give way."""

    version: Literal["1"]
    entries: int = Field(default=8, ge=1, le=32)
    max_bytes: int = Field(default=16384, ge=4096, le=65536)

    @property
    def bounds(self) -> MemoryBounds:
        return MemoryBounds(entries=self.entries, max_bytes=self.max_bytes)


def load_memory(folder: Path) -> tuple[MemoryBounds | None, str | None]:
    """The bounds and the digest of the file; None and None where there is none. Raises ConfigurationError."""
    path = policy_path(folder, MEMORY_FILE)
    if not path.exists():
        return None, None
    data = read_policy(path)
    return parse_policy(path, MemoryPolicy, data).bounds, hashlib.sha256(data).hexdigest()
