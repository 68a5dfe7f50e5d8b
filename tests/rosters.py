"""People with keys of OpenSSH, and the roster that lists them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def make_key(place: Path, comment: str = "ana") -> Path:
    """An SSH key as people make them; its public line lies beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", place], check=True)
    return place


def make_keys(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """A key for each person, in a file of the person's name."""
    return {name: make_key(folder / name, name) for name in names}


def write_roster(policies: Path, keys: Mapping[str, Path]) -> None:
    """The file of the people who approve, each with a key."""
    people = [{"name": name, "keys": [{"key": key.with_suffix(".pub").read_text().strip()}]} for name, key in keys.items()]
    (policies / "approvers.json").write_text(json.dumps({"version": "1", "people": people}))
