"""Where a command works: the named bus, if any, and the home folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatewright.cli import settings
from gatewright.cli.home import find_home
from gatewright.evidence.keys import home_key


@dataclass(frozen=True, slots=True)
class Place:
    """``url`` is None unless GATEWRIGHT_NATS_URL names a bus; ``here`` is where the caller stands; ``key`` the signing key."""

    here: Path
    home: Path
    url: str | None
    key: Path


def find_place() -> Place:
    """Raises ConfigurationError."""
    loaded = settings.load()
    here = Path.cwd()
    home = find_home(loaded.home, here)
    return Place(here, home, loaded.nats_url, loaded.key or home_key(home))
