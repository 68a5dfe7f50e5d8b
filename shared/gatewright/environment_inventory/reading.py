"""The inventory of everything that a command is shown besides the system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from gatewright.contracts import EnvironmentInventory
from gatewright.contracts.inventory import MOST_NAMED, InventoryTree
from gatewright.environment_inventory.other_packages import CHECKSUMS, DOWNLOADS, MODULES, read_go, read_node, read_rust
from gatewright.environment_inventory.python_packages import read_python, sites_of
from gatewright.environment_inventory.trees import InstalledTree, one_line
from gatewright.sandbox.environments import Environments, read_record

Ecosystem = Literal["python", "node", "rust", "go", "other"]
_READERS: Final[Mapping[Ecosystem, Callable[[InstalledTree], None]]] = {
    "python": read_python,
    "node": read_node,
    "rust": read_rust,
    "go": read_go,
}


def read_inventory(prefix: Path, ecosystem: Ecosystem | None = None) -> InventoryTree:
    """Return what is installed in ``prefix``; by default the ecosystem follows from its record or its files.

    Packages of Java, and of the system in an image, are not read. Blocks for as long as reading all recorded files takes.
    """
    real = prefix.resolve()
    tree = InstalledTree(real.parent, MODULES) if real.name == MODULES else InstalledTree(real)
    record = read_record(prefix)
    kind = ecosystem or (record.ecosystem if record is not None else _ecosystem_of(tree))
    if kind == "other":
        tree.fault("no packages of a known ecosystem")
    else:
        _READERS[kind](tree)
    return InventoryTree(
        ecosystem=kind,
        version=tree.version,
        packages=tuple(sorted(tree.packages, key=lambda each: each.purl)),
        files=len(tree.files),
        unknown_files=len(tree.unknown),
        unknown=_first(tree.unknown),
        altered_files=len(tree.altered),
        altered=_first(tree.altered),
        faults=tuple(tree.faults),
    )


def _first(paths: set[str]) -> tuple[str, ...]:
    return tuple(one_line(path) for path in sorted(paths)[:MOST_NAMED])


def _ecosystem_of(tree: InstalledTree) -> Ecosystem:
    if "pyvenv.cfg" in tree.files or sites_of(tree):
        return "python"
    if any(f"{MODULES}/" in path for path in tree.files):
        return "node"
    if any(path.endswith(f"/{CHECKSUMS}") for path in tree.files):
        return "rust"
    return "go" if any(DOWNLOADS in path for path in tree.files) else "other"


def inventory_of(shown: Environments) -> EnvironmentInventory:
    """Return the inventory of all environments of one command, an image included. Blocks like ``read_inventory``."""
    return EnvironmentInventory(trees=tuple(read_inventory(path) for path in shown.watched))
