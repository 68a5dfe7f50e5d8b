"""The approval rules and the roster of a home folder whose operator has named no policies.

There the account that owns the home decides about its own CI files and about the packages of a changed lock: such a run waits
for a decision signed with the home's key. Both files are ordinary policies (``approval_rules.json``, ``approvers.json``) in the
folder ``own-policies`` of the home, over the delivered ones. They are rewritten from the account and the key, so edits are
lost. A folder that ``GATEWRIGHT_POLICIES`` names replaces them.
"""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any, Final

from gatewright.evidence.signing import keys
from gatewright.policy_files import APPROVAL_RULES, ROSTER
from gatewright.private_files import read_private, write_private

OWN_POLICIES: Final = "own-policies"
#: Seconds that the owner is waited for.
_WITHIN_SECONDS: Final = 86_400
_IN_NAMES: Final = frozenset("._@+-")


def owner_name() -> str:
    """The account of this process as rosters name people; ``owner`` where its name is none that a roster may hold."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "owner"
    fits = name.isascii() and name[:1].isalnum() and all(each.isalnum() or each in _IN_NAMES for each in name)
    return name if fits and len(name) <= 128 else "owner"


def own_policies(home: Path) -> Path:
    """Return the folder of these policies in ``home``."""
    return home / OWN_POLICIES


def write_own_policies(home: Path, key: Path) -> Path:
    """Write the rules and the roster for the owner of ``home``, whose private key is ``key``; return their folder.

    A missing key is created. A correct file stays untouched. Raises ConfigurationError, OSError.
    """
    # Imported late: only what starts a stack or signs needs it.
    from gatewright.ssh_signatures import public_line

    folder, owner = own_policies(home), owner_name()
    if not key.exists():
        keys.load_or_create(key)
    own = {"risk": "high", "approvers": [owner], "within_seconds": _WITHIN_SECONDS, "yourself": True}
    rules = [
        {"name": "own-ci-files", "reason": "protected_class", "classes": ["ci"], **own},
        {"name": "own-packages", "reason": "network", **own},
    ]
    person = {"name": owner, "keys": [{"key": public_line(keys.load_secret(key))}]}
    folder.mkdir(mode=0o700, exist_ok=True)
    _write_if_changed(folder / APPROVAL_RULES, {"version": "1", "rules": rules})
    _write_if_changed(folder / ROSTER, {"version": "1", "people": [person]})
    return folder


def _write_if_changed(path: Path, document: dict[str, Any]) -> None:
    data = json.dumps(document, indent=2).encode() + b"\n"
    if read_private(path) != data:
        write_private(path, data)
