"""Where a command works: the named bus, if any, and the home folder."""

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
    """``bus`` is None unless GATEWRIGHT_NATS_URL names one; ``here`` is where the caller stands; ``key`` the signing key."""

    here: Path
    home: Path
    bus: BusAddress | None
    key: Path

    @property
    def own_home(self) -> Path | None:
        """The home folder where the system runs on this host; None for a bus that was named."""
        return self.home if self.bus is None else None


def find_own_policies(place: CommandContext) -> Path | None:
    """The folder with the home's own approval rule; None where policies or a bus were named, or no stack has run here yet."""
    folder = own_policies(place.home)
    return folder if place.bus is None and settings.load().policies is None and folder.is_dir() else None


def find_place() -> CommandContext:
    """Raises ConfigurationError."""
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
