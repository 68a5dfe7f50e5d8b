"""Packages of Python as an installer leaves them, honest or not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from gatewright.contracts.inventory import InventoryTree
from gatewright.environment_inventory.reading import read_inventory

SITE = "lib/python3.11/site-packages"


def make_prefix(prefix: Path, settings: str = "version = 3.11.7\n") -> Path:
    """An empty virtual environment."""
    (prefix / SITE).mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "pyvenv.cfg").write_text(settings)
    return prefix


def install(
    prefix: Path,
    name: str = "needed",
    version: str = "1.0",
    metadata: str = "",
    files: Mapping[str, bytes] | None = None,
    rows: str = "",
) -> Path:
    """Write the files of a package with RECORD, and ``rows`` besides; return the folder of its metadata."""
    info = f"{name}-{version}.dist-info"
    content = {f"{name}.py": b"value = 1\n", **(files or {})}
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{metadata}".encode()
    record, site = "", next(prefix.glob("lib/python*/site-packages"))
    for path, data in content.items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    (site / info / "RECORD").write_text(f"{record}{info}/RECORD,,\n{rows}")
    return site / info


def python_tree(prefix: Path) -> InventoryTree:
    return read_inventory(prefix, "python")
