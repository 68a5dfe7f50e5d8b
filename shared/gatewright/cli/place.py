"""Where a command works: the named bus, if any, and the home folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatewright.bus.identities import BusAddress
from gatewright.cli import settings
from gatewright.cli.home import find_home
from gatewright.evidence.keys import home_key


@dataclass(frozen=True, slots=True)
class Place:
    """``bus`` is None unless GATEWRIGHT_NATS_URL names one; ``here`` is where the caller stands; ``key`` the signing key."""

    here: Path
    home: Path
    bus: BusAddress | None
    key: Path


def find_place() -> Place:
    """Raises ConfigurationError."""
    loaded = settings.load()
    here = Path.cwd()
    home = find_home(loaded.home, here)
    bus = BusAddress(loaded.nats_url, loaded.nats_seed, loaded.nats_ca) if loaded.nats_url else None
    return Place(here, home, bus, loaded.key or home_key(home))
