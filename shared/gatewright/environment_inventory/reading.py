"""The inventory of everything that a command is shown besides the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from gatewright.contracts import EnvironmentInventory
from gatewright.contracts.inventory import MOST_NAMED, Ecosystem, InventoryTree, PullFacts
from gatewright.environment_inventory.java_packages import is_java, read_java
from gatewright.environment_inventory.other_packages import CHECKSUMS, DOWNLOADS, MODULES, read_go, read_node, read_rust
from gatewright.environment_inventory.pulls import pull_facts
from gatewright.environment_inventory.python_packages import read_python, sites_of
from gatewright.environment_inventory.trees import InstalledTree, one_line
from gatewright.errors import VerificationError
from gatewright.sandbox.environments import EGRESS_LOG, PreparedEnvironment, read_record

_Readers = Mapping[Ecosystem, Callable[[InstalledTree], None]]
_READERS: Final[_Readers] = {
    "python": read_python,
    "node": read_node,
    "rust": read_rust,
    "go": read_go,
    "java": read_java,
}


def read_inventory(prefix: Path, ecosystem: Ecosystem | None = None) -> InventoryTree:
    """Return what is installed in ``prefix``; by default the ecosystem follows from its record or its files.

    Packages of the system in an image are not read. Blocks for as long as reading all recorded files takes.
    """
    real = prefix.resolve()
    tree = InstalledTree(real.parent, MODULES) if real.name == MODULES else InstalledTree(real)
    record = read_record(prefix)
    kind = ecosystem or (record.ecosystem if record is not None else _ecosystem_of(tree))
    if kind == "other":
        tree.fault("no packages of a known ecosystem")
    else:
        _READERS[kind](tree)
    pull = _read_pull(tree, record)
    return InventoryTree(
        ecosystem=kind,
        version=tree.version,
        packages=tuple(sorted(tree.packages, key=lambda each: each.purl)),
        unknown_files=len(tree.unknown),
        unknown=tuple(map(one_line, sorted(tree.unknown)[:MOST_NAMED])),
        altered_files=len(tree.altered),
        altered=tuple(map(one_line, sorted(tree.altered)[:MOST_NAMED])),
        faults=tuple(tree.faults),
        pull=pull,
    )


def _read_pull(tree: InstalledTree, record: PreparedEnvironment | None) -> PullFacts | None:
    if record is None or record.egress is None:
        return None
    try:
        return pull_facts(tree.read(EGRESS_LOG), record.egress.head)
    except VerificationError as error:
        tree.fault(f"the requests of its installer: {error.message}")
        return None


def _ecosystem_of(tree: InstalledTree) -> Ecosystem:
    if "pyvenv.cfg" in tree.files or sites_of(tree):
        return "python"
    if any(f"{MODULES}/" in path for path in tree.files):
        return "node"
    if any(path.endswith(f"/{CHECKSUMS}") for path in tree.files):
        return "rust"
    if any(DOWNLOADS in path for path in tree.files):
        return "go"
    return "java" if is_java(tree) else "other"


def inventory_of(prefixes: Iterable[Path]) -> EnvironmentInventory:
    """Return the inventory of all environments of one command, an image included. Blocks like ``read_inventory``."""
    return EnvironmentInventory(trees=tuple(map(read_inventory, prefixes)))
