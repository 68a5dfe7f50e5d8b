"""The context of a command: the named bus, if any, and the home folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli import settings
from gatewright.app.cli.home import find_home, tracked_by
from gatewright.app.stack.own_policies import own_policies
from gatewright.bus.identities import BusAddress
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing.keys import home_key


@dataclass(frozen=True, slots=True)
class CommandContext:
    """``bus`` is None unless GATEWRIGHT_NATS_URL names one. ``here``: current folder. ``key``: signing key."""

    here: Path
    home: Path
    bus: BusAddress | None
    key: Path

    @property
    def own_home(self) -> Path | None:
        """Return the home folder of a local system; None for a bus that was named."""
        return self.home if self.bus is None else None


def find_own_policies(place: CommandContext) -> Path | None:
    """Return the folder of the home's own approval rule.

    The result is None where policies or a bus were named, and before the first stack.
    """
    folder = own_policies(place.home)
    return folder if place.bus is None and settings.load().policies is None and folder.is_dir() else None


def find_place() -> CommandContext:
    """Determine the context of this command. Raises ConfigurationError."""
    loaded = settings.load()
    here = Path.cwd()
    home = find_home(loaded.home, here)
    if loaded.key is not None and (top := tracked_by(loaded.key.expanduser().absolute())) is not None:
        raise ConfigurationError(
            f"{loaded.key} (GATEWRIGHT_KEY) is tracked by the repository {top}: its readers could sign with it too; "
            "name a key that lies outside",
            code="key_tracked",
        )
    named = BusAddress(loaded.nats_url or "", loaded.nats_seed, loaded.nats_ca, loaded.ledger_partitions)
    bus = named if loaded.nats_url else None
    return CommandContext(here, home, bus, loaded.key or home_key(home))
