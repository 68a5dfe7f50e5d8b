"""What lies in the folder of bundles: sealed, open, pruned, or no bundle at all. Follows no link, changes nothing."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from gatewright.contracts import RunManifest, codec
from gatewright.errors import MalformedError
from gatewright.evidence import layout, tombstone

#: ``open``: not sealed yet, or never. ``half_pruned``: a tombstone stands, and removing was cut short. ``odd``: no bundle.
State = Literal["sealed", "open", "pruned", "half_pruned", "odd"]
Status = Literal["SUCCESS", "FAILED", "ABORTED"]
MAX_MANIFEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """An entry of the folder. All fields after ``size`` are set for a sealed bundle only, from its manifest."""

    run_id: str
    folder: Path
    state: State
    note: str = ""
    size: int = 0
    status: Status = "SUCCESS"
    finished_at: datetime | None = None
    manifest: RunManifest | None = None
    manifest_sha256: str = ""


def take_inventory(root: Path) -> tuple[InventoryItem, ...]:
    """Return every entry of ``root`` by name; none if the folder is missing. Raises OSError."""
    if not root.is_dir():
        return ()
    # Names that begin with a dot are our drafts.
    return tuple(look_at(folder) for folder in sorted(root.iterdir()) if not folder.name.startswith("."))


def look_at(folder: Path) -> InventoryItem:
    """Return the current state of one entry. Raises OSError."""
    if not stat.S_ISDIR(folder.lstat().st_mode) or not layout.is_safe(folder.name):
        return InventoryItem(folder.name, folder, "odd", "it is no folder of a run; links are not followed")
    size, odd = _weigh(folder)
    if tombstone.stands(folder):
        left = any(path.name != tombstone.FILE for path in folder.iterdir())
        return InventoryItem(folder.name, folder, "half_pruned" if left else "pruned", size=size)
    if odd:
        return InventoryItem(folder.name, folder, "odd", "it holds links or special files", size)
    return _bundle(folder.name, folder, size)


def _bundle(name: str, folder: Path, size: int) -> InventoryItem:
    path = folder / layout.MANIFEST
    if not path.exists() or not (folder / layout.ENVELOPE).exists():
        return InventoryItem(name, folder, "open", "it is not sealed", size)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MANIFEST_BYTES)
        manifest = codec.decode(data, RunManifest)
        finished = datetime.fromisoformat(manifest.finished_at or "")
    except (OSError, MalformedError, ValueError) as error:
        return InventoryItem(name, folder, "odd", f"its manifest cannot be read: {error}", size)
    if manifest.run_id != name or manifest.integrity is None or finished.tzinfo is None:
        return InventoryItem(name, folder, "odd", "its manifest is not that of a sealed run of this name", size)
    aborted = (manifest.failure_reason or "").startswith("aborted")
    status: Status = "SUCCESS" if manifest.status == "SUCCESS" else "ABORTED" if aborted else "FAILED"
    digest = hashlib.sha256(data).hexdigest()
    return InventoryItem(name, folder, "sealed", "", size, status, finished, manifest, digest)


def _weigh(folder: Path) -> tuple[int, bool]:
    """Return the bytes of all plain files below, and whether there is anything besides files and folders."""
    size, odd = 0, False
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            facts = Path(parent, name).lstat()
            if stat.S_ISREG(facts.st_mode):
                size += facts.st_size
            elif not stat.S_ISDIR(facts.st_mode):
                odd = True
    return size, odd
