"""The inventory of what commands were shown: read once for each state of an environment, and kept among the tables."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.contracts.inventory import MOST_NAMED
from gatewright.environment_inventory.pulls import ARTIFACT as EGRESS_LOG
from gatewright.environment_inventory.pulls import read_log
from gatewright.environment_inventory.reading import inventory_of
from gatewright.environment_inventory.summary import ARTIFACT
from gatewright.errors import MalformedError
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.testrunner.known_environments import SeenEnvironment
from gatewright.services.testrunner.tables import Tables, key_of


@dataclass(frozen=True, slots=True)
class ListedEnvironment:
    """An inventory with its bytes, and the egress logs that it names."""

    inventory: EnvironmentInventory
    content: bytes
    logs: tuple[bytes, ...]


async def list_environment(seen: SeenEnvironment, tables: Tables, scanner: SecretScanner) -> ListedEnvironment | None:
    """Return the inventory, free of secrets; None where commands see the system alone.

    It is kept when ``seen`` is confirmed.
    """
    if seen.snapshot is None:
        return None
    state, places = seen.snapshot.document(), [each.prefix for each in (seen.snapshot, *seen.snapshot.others)]
    key = key_of("", (), f"{state.place_sha256} {state.files_sha256}", ARTIFACT)
    # Canonical JSON has neither a line end nor a tab, as a table requires.
    text = (await tables.find(key) or {}).get(ARTIFACT, "")
    if not text:
        text = await asyncio.to_thread(_list_packages, places, scanner)
        await seen.confirmed()
        await tables.keep(key, {ARTIFACT: text})
    with contextlib.suppress(MalformedError):  # a redaction may leave no valid document
        inventory = codec.decode(text.encode(), EnvironmentInventory)
        logs = await asyncio.to_thread(lambda: tuple(_read_logs(inventory, places)))
        return ListedEnvironment(inventory, text.encode(), logs)
    return None


def _list_packages(places: Sequence[Path], scanner: SecretScanner) -> str:
    """Return the inventory as text, free of secrets. An egress log with a secret is left out."""
    trees = [
        tree
        if tree.pull is None or _is_clean(place, scanner)
        else replace(tree, pull=None, faults=(*tree.faults[: MOST_NAMED - 1], "the egress log is unreadable, or has a secret"))
        for tree, place in zip(inventory_of(places).trees, places, strict=True)
    ]
    return redact_output(ARTIFACT, codec.encode(EnvironmentInventory(trees=tuple(trees))), scanner).data.decode()


def _is_clean(place: Path, scanner: SecretScanner) -> bool:
    try:
        return not redact_output(EGRESS_LOG, read_log(place), scanner).redactions
    except OSError:
        return False


def _read_logs(inventory: EnvironmentInventory, places: Sequence[Path]) -> Iterator[bytes]:
    for tree, place in zip(inventory.trees, places, strict=True):
        if tree.pull is not None:
            with contextlib.suppress(OSError):  # the environment has changed since, which the report shows
                yield read_log(place)
