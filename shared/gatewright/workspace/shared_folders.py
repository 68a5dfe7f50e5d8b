"""Read-only folders that are made once and shared by all tasks of all processes with the same root.

They are made beside their path and renamed, so that an existing one is complete. They are kept until the machine restarts
(a power cut may leave files half written), the least recently used are removed first, and none while a task uses it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.holds import hold, longest_unused, remove_unless_held, wait_for_hold
from gatewright.workspace.removal import remove_tree
from gatewright.workspace.threads import finish

_FILES: Final = "files"


class SharedFolders:
    """Folders below ``root``, at most ``most`` of them unless more are in use; they belong to ``account``."""

    def __init__(self, root: Path, account: SandboxAccount, *, most: int) -> None:
        self._root = root
        self._account = account
        self._most = most

    @asynccontextmanager
    async def use(self, name: str, fill: Callable[[Path], Awaitable[None]]) -> AsyncIterator[Path]:
        """The folder ``name``, which stays while the context is open. It is read-only. ``fill`` fills it where it is missing.

        Raises what ``fill`` raises.
        """
        place = self._root / name
        while (held := hold(place, exclusive=False)) is None:
            await self._make_folder(place, fill)
            await asyncio.sleep(0)  # another process may be removing it just now
        try:
            os.utime(place)  # for the search for the longest unused one
            yield place / _FILES
        finally:
            os.close(held)

    async def _make_folder(self, place: Path, fill: Callable[[Path], Awaitable[None]]) -> None:
        makers = self._root / f".makers-{place.name[:2]}"
        held = await wait_for_hold(makers)
        fresh = makers / uuid.uuid4().hex
        try:
            if not await finish(self._begin, place, fresh):
                return
            await fill(fresh / _FILES)
            fresh.rename(place)
        finally:
            await finish(remove_tree, fresh)
            os.close(held)
        await finish(self._make_room, place)

    def _begin(self, place: Path, fresh: Path) -> bool:
        """False when another process has made it meanwhile."""
        if place.exists():
            return False
        for left in fresh.parent.iterdir():  # by makers that died
            remove_tree(left)
        fresh.mkdir(mode=0o755)
        files = fresh / _FILES
        files.mkdir()
        files.chmod(0o755)
        if self._account.switched:
            os.chown(files, self._account.uid, self._account.gid)
        return True

    def _make_room(self, newest: Path) -> None:
        kept = longest_unused(self._root)
        for place in kept[: max(0, len(kept) - self._most)]:
            if place != newest:
                remove_unless_held(place)
