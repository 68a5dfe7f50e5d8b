"""The inventory of what commands were shown: read once for each state of an environment, and kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.environment_inventory.reading import inventory_of
from gatewright.environment_inventory.summary import ARTIFACT
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.private_files import read_private, write_private
from gatewright.sandbox.environments import Environments
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.testrunner.tables import key_of

#: Inventories that are kept.
_MOST: Final = 32


class Inventories:
    """Below ``folder``, which is made when the first is kept; without one every inventory is read again."""

    def __init__(self, folder: Path | None, scanner: SecretScanner) -> None:
        self._folder = folder
        self._scanner = scanner

    async def of(
        self, shown: Environments | None, environment: str, confirmed: Callable[[], Awaitable[object]]
    ) -> tuple[EnvironmentInventory, bytes] | None:
        """Return the inventory and its bytes, free of secrets; None where commands see the system alone.

        ``environment`` is a digest of the state that ``confirmed`` confirms: only then the inventory is kept.
        """
        if shown is None or not environment:
            return None
        place = self._folder / key_of("", (), environment, ARTIFACT) if self._folder is not None else None
        if place is not None and (kept := await asyncio.to_thread(_read, place)) is not None:
            return kept
        data = await asyncio.to_thread(self._list, shown)
        await confirmed()
        if place is not None:
            await asyncio.to_thread(_keep, place, data)
        return _decoded(data)

    def _list(self, shown: Environments) -> bytes:
        return redact_output(ARTIFACT, codec.encode(inventory_of(shown)), self._scanner).data


def _read(place: Path) -> tuple[EnvironmentInventory, bytes] | None:
    with contextlib.suppress(ConfigurationError, OSError):
        return _decoded(read_private(place) or b"")
    return None


def _decoded(data: bytes) -> tuple[EnvironmentInventory, bytes] | None:
    """A redaction may leave no valid document; then there is no inventory."""
    with contextlib.suppress(MalformedError):
        return codec.decode(data, EnvironmentInventory), data
    return None


def _keep(place: Path, data: bytes) -> None:
    """A full disk keeps nothing."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(place, data)
        for old in sorted(place.parent.iterdir(), key=lambda each: each.stat().st_mtime_ns)[:-_MOST]:
            old.unlink(missing_ok=True)
