"""``gatewright verify``: which bundle and which key are meant, and how the verdict is told. The library checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatewright.cli.place import Place, find_place
from gatewright.cli.sources import RUNS_FOLDER, BundleSource, find_run
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.evidence import keyring, keys
from gatewright.evidence.findings import Verification
from gatewright.evidence.layout import is_safe
from gatewright.evidence.verify import verify

#: More findings than this are counted, not listed, for people.
MOST_FINDINGS = 20


def check_bundle(given: str | None, key: Sequence[Path], repository: str | None, *, unsigned: bool) -> Verification:
    """Verify the bundle that ``given`` names. Raises MalformedError when there is no such bundle or no such key."""
    place = find_place()
    bundle = find_bundle(given, place)
    trusted = [] if unsigned and not key else trusted_keys(key, place)
    return verify(bundle, trusted, repository, insecure_allow_unsigned=unsigned)


def find_bundle(given: str | None, place: Place) -> Path:
    """The folder that ``given`` names: a folder, or a run (or its beginning) of the home folder; None is its newest run.

    Raises MalformedError.
    """
    if given is not None and Path(given).is_dir():
        return Path(given)
    # A pruned bundle tells no run any more, and its tombstone can be verified all the same.
    if given is not None and is_safe(given) and (place.home / RUNS_FOLDER / given).is_dir():
        return place.home / RUNS_FOLDER / given
    run_id = asyncio.run(find_run(BundleSource(place.home, lambda _: None), given))
    return place.home / RUNS_FOLDER / run_id


def trusted_keys(given: Path | Sequence[Path] | None, place: Place) -> list[keys.PublicKey]:
    """The keys in the files that were given, or else all that this home folder trusts.

    Raises MalformedError when one cannot be read, or there is none.
    """
    files = [given] if isinstance(given, Path) else list(given or ())
    try:
        if files:
            return [keys.load_public(file) for file in files]
        found = keyring.trusted(place.home, place.key)
        return found or [keys.load_public(keys.public_path(place.key))]
    except ConfigurationError as error:
        hint = "" if files else "; say whom you trust: --key FILE"
        raise MalformedError(f"{error.message}{hint}", code=error.reason) from error


def verification_document(result: Verification) -> dict[str, Any]:
    """The document of ``verify --json``."""
    document: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    return {"ok": result.ok, "outcome": result.outcome, **document}


def verdict_lines(result: Verification) -> list[str]:
    """The verdict for people."""
    name = f"{result.run_id or 'bundle'} ({result.status or 'unknown'})"
    if result.ok:
        signed = result.signer != ""
        return [
            f"✔ {name}: all {result.files} files are as they were {'signed' if signed else 'written'}",
            f"  signed by {result.signer}" if signed else "  NOT SIGNED: anybody may have written this bundle",
            f"  checked   {', '.join(step.partition(' ')[2] for step in result.checked)}",
            "  a bundle alone cannot tell:",
            *(f"    {words}" for words in result.unchecked),
        ]
    lines = [f"✘ {name}: {result.outcome.replace('_', ' ')}"]
    lines += [f"  {f.path or result.location}: {f.code}: {f.message}" for f in result.findings[:MOST_FINDINGS]]
    more = len(result.findings) - MOST_FINDINGS
    return [*lines, f"  ... and {more} more"] if more > 0 else lines
