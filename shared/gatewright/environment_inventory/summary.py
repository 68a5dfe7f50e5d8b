"""The figures of an inventory: all that a report states about it, and what ``verify`` compares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from gatewright.contracts import EnvironmentInventory
from gatewright.contracts.vocabulary import InventorySummary

#: Name of the inventory among the artifacts of the role that ran the commands.
ARTIFACT: Final = "environment_inventory"


def summary_of(inventory: EnvironmentInventory, data: bytes) -> InventorySummary:
    """Return the figures of an inventory with the bytes ``data``."""
    names = (f"{tree.ecosystem} {'.'.join(tree.version.split('.')[:2])}".strip() for tree in inventory.trees)
    return InventorySummary(
        sha256=hashlib.sha256(data).hexdigest(),
        environment=", ".join(dict.fromkeys(names)),
        packages=sum(len(tree.packages) for tree in inventory.trees),
        unknown_files=sum(tree.unknown_files for tree in inventory.trees),
        altered_files=sum(tree.altered_files for tree in inventory.trees),
        faults=sum(len(tree.faults) for tree in inventory.trees),
        requests=sum(tree.pull.requests for tree in inventory.trees if tree.pull is not None),
    )


def unexplained(inventory: EnvironmentInventory) -> Iterator[tuple[str, str]]:
    """Yield each named unknown file, altered file and reason why something was not measured, with its kind."""
    for tree in inventory.trees:
        for kind, lines in (("unknown", tree.unknown), ("altered", tree.altered), ("not measured", tree.faults)):
            yield from ((kind, each) for each in lines)


def summary_words(summary: InventorySummary) -> str:
    """Return the figures on one line."""
    words = f"{summary.environment}: {summary.packages} packages, {summary.unknown_files} unknown files"
    words += f", {summary.altered_files} altered files" if summary.altered_files else ""
    words += f", {summary.faults} not measured" if summary.faults else ""
    return words + (f", {summary.requests} requests to registries" if summary.requests else "")
