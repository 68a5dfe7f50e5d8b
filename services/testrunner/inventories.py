"""The inventory of what commands were shown: read once for each state of an environment, and kept among the tables."""

from __future__ import annotations

import asyncio
import contextlib

from gatewright.contracts import EnvironmentInventory, codec
from gatewright.environment_inventory.reading import inventory_of
from gatewright.environment_inventory.summary import ARTIFACT
from gatewright.errors import MalformedError
from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.testrunner.known_environments import SeenEnvironment
from gatewright.services.testrunner.tables import Tables, key_of


async def list_environment(
    seen: SeenEnvironment, tables: Tables, scanner: SecretScanner
) -> tuple[EnvironmentInventory, bytes] | None:
    """Return the inventory and its bytes, free of secrets; None where commands see the system alone.

    It is kept when ``seen`` is confirmed.
    """
    if seen.snapshot is None:
        return None
    state, places = seen.snapshot.document(), [each.prefix for each in (seen.snapshot, *seen.snapshot.others)]
    key = key_of("", (), f"{state.place_sha256} {state.files_sha256}", ARTIFACT)
    # Canonical JSON has neither a line end nor a tab, as a table requires.
    text = (await tables.find(key) or {}).get(ARTIFACT, "")
    if not text:
        data = await asyncio.to_thread(lambda: redact_output(ARTIFACT, codec.encode(inventory_of(places)), scanner).data)
        text = data.decode()
        await seen.confirmed()
        await tables.keep(key, {ARTIFACT: text})
    with contextlib.suppress(MalformedError):  # a redaction may leave no valid document
        return codec.decode(text.encode(), EnvironmentInventory), text.encode()
    return None
