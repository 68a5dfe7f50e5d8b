"""The inventory of what commands were shown: read once for each state of an environment, and kept among the tables."""

from __future__ import annotations

import asyncio
import contextlib

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.environment_inventory.reading import inventory_of
from gatewright.environment_inventory.summary import ARTIFACT
from gatewright.errors import MalformedError
from gatewright.sandbox.environments import Environments
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.testrunner.known_environments import SeenEnvironment
from gatewright.services.testrunner.tables import Tables, key_of


async def list_environment(
    shown: Environments | None, seen: SeenEnvironment, tables: Tables, scanner: SecretScanner
) -> tuple[EnvironmentInventory, bytes] | None:
    """Return the inventory and its bytes, free of secrets; None where commands see the system alone.

    It is kept when ``seen`` is confirmed.
    """
    if shown is None or seen.snapshot is None:
        return None
    state = seen.snapshot.document()
    key = key_of("", (), f"{state.place_sha256} {state.files_sha256}", ARTIFACT)
    # Canonical JSON has neither a line end nor a tab, as a table requires.
    kept = _decoded((await tables.find(key) or {}).get(ARTIFACT, ""))
    if kept is not None:
        return kept
    data = await asyncio.to_thread(lambda: redact_output(ARTIFACT, codec.encode(inventory_of(shown)), scanner).data)
    await seen.confirmed()
    await tables.keep(key, {ARTIFACT: data.decode()})
    return _decoded(data.decode())


def _decoded(text: str) -> tuple[EnvironmentInventory, bytes] | None:
    with contextlib.suppress(MalformedError):  # a redaction may leave no valid document
        return codec.decode(text.encode(), EnvironmentInventory), text.encode()
    return None
