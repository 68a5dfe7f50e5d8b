"""Answers from the network, kept by service and address: the same question within the hours of the policy sends no request."""

from __future__ import annotations

import contextlib
import hashlib
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from gatewright.clock import Clock
from gatewright.research.port import FetchedSource

#: Files that are kept; the oldest go first.
_MOST: Final = 2000


class AnswerStore:
    """A folder of one process. Files that cannot be read are ignored: they cost a request."""

    def __init__(self, folder: Path, hours: int, clock: Clock) -> None:
        self._folder = folder
        self._kept = timedelta(hours=hours)
        self._clock = clock

    def find(self, service: str, address: str) -> FetchedSource | None:
        """Return a kept answer that is young enough. Slow: use a thread."""
        try:
            source = msgspec.msgpack.decode(self._file_of(service, address).read_bytes(), type=FetchedSource)
            young = self._clock.now() - datetime.fromisoformat(source.retrieved_at) < self._kept
        except (OSError, ValueError):  # includes msgspec's own errors
            return None
        return source if young else None

    def keep(self, service: str, address: str, source: FetchedSource) -> None:
        """Keep an answer. A full disk only costs the next request. Slow: use a thread."""
        if not self._kept:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._file_of(service, address)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(msgspec.msgpack.encode(source))
            fresh.replace(path)
            by_age = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)
            for old in by_age[:-_MOST]:
                old.unlink(missing_ok=True)

    def _file_of(self, service: str, address: str) -> Path:
        return self._folder / hashlib.sha256(f"{service}\0{address}".encode()).hexdigest()
