"""Digest over all policies of a gatekeeper, computed from the digests of its files. Every run records it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from gatewright.policy_files import OPTIONAL, ORGANISATION, REQUIRED


def policies_sha256(digests: Mapping[str, str], named_publishers: Iterable[str]) -> str:
    """Return the digest. It changes with any changed, added, removed or renamed policy.

    Args:
        digests: hexadecimal sha256 of the files by name, with organisation rules as ``organisation/<rule>``.
        named_publishers: publishers from the settings.

    Raises:
        ValueError: a digest is invalid.
        KeyError: a file is missing.
    """
    digest = hashlib.sha256()
    for name in REQUIRED:
        digest.update(bytes.fromhex(digests[name]))
    rules = {name for name in digests if name.startswith(f"{ORGANISATION}/")}
    known = [name for name in OPTIONAL if name in digests]
    others = sorted(digests.keys() - {*REQUIRED, *OPTIONAL} - rules)
    for name in (*known, *others, *sorted(rules)):
        shown = name.removeprefix(f"{ORGANISATION}/") if name in rules else name.removesuffix(".json")
        digest.update(shown.encode() + b"\0" + bytes.fromhex(digests[name]))
    for publisher in named_publishers:
        digest.update(b"publisher\0" + publisher.encode())
    return digest.hexdigest()
