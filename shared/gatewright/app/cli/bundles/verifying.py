"""``gatewright verify``: which bundle and which key are meant, and how the verdict is told. The library checks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from gatewright.app.cli.bundles.stored import fetch_bundle, fetched_of, unpack_archive
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.runs.sources import RUNS_FOLDER, BundleSource, find_run
from gatewright.app.cli.settings import load as load_settings
from gatewright.app.cli.settings import operator_access
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.evidence.layout import is_safe
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.store.address import is_address, is_run
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify

#: More findings than this are counted, not listed, for people.
MOST_FINDINGS = 20
#: A key id, or so much of its beginning that it cannot be made to fit another key.
_FINGERPRINT = re.compile(r"[0-9a-fA-F]{16,64}")  # noqa: TID251 - linear: one class


@dataclass(frozen=True, slots=True)
class Checked:
    """A verification, and the trusted key that signed; None where none did."""

    result: Verification
    key: keyring.KnownKey | None


def check_bundle(given: str | None, key: Sequence[str], repository: str | None, *, unsigned: bool) -> Checked:
    """Verify the bundle that ``given`` names. Raises MalformedError when there is no such bundle or no such key.

    With a folder and key files no home folder is asked, so that one which a repository tracks does not get in the way.
    """
    bundle = find_elsewhere(given) if given is not None and _is_elsewhere(given) else find_bundle(given, find_place())
    trusted = () if unsigned and not key else trust(key)
    access = operator_access() if repository is not None else None
    result = verify(bundle, [each.public for each in trusted], repository, insecure_allow_unsigned=unsigned, access=access)
    if given is not None and is_address(given):
        result = replace(result, location=given)
    return Checked(result, next((each.known for each in trusted if each.public.key_id == result.signer), None))


def _is_elsewhere(given: str) -> bool:
    return is_address(given) or Path(given).is_dir() or (given.endswith(".zip") and Path(given).is_file())


def find_elsewhere(given: str) -> Path:
    """The folder or archive ``given``, or the bundle at this address of a store, for which no home folder is asked.

    Raises StoreError, MalformedError (``not_a_bundle``).
    """
    if is_address(given):
        return fetch_bundle(given)
    return unpack_archive(Path(given)) if Path(given).is_file() else Path(given)


def find_bundle(given: str | None, place: CommandContext) -> Path:
    """The bundle that ``given`` names: a folder, an archive, or a run (or its beginning) of the home folder.

    None is the newest run there. A bundle in a store is fetched: by its address, or by the whole id of its run where the
    settings name the store. Raises MalformedError, StoreError.
    """
    if given is not None and _is_elsewhere(given):
        return find_elsewhere(given)
    # A pruned bundle tells no run any more, and its tombstone can be verified all the same.
    if given is not None and is_safe(given) and (place.home / RUNS_FOLDER / given).is_dir():
        return place.home / RUNS_FOLDER / given
    store = load_settings().bundle_store
    if given is not None and is_run(given) and store:
        return fetched_of(store, given)
    run_id = asyncio.run(find_run(BundleSource(place.home, lambda _: None), given))
    return place.home / RUNS_FOLDER / run_id


@dataclass(frozen=True, slots=True)
class Trusted:
    """A key that is accepted, with where it comes from."""

    public: keys.PublicKey
    known: keyring.KnownKey


def trust(given: Sequence[str], place: CommandContext | None = None) -> tuple[Trusted, ...]:
    """The keys that were given, as files or as fingerprints of this home's, or else all that this home folder trusts.

    Raises MalformedError when one cannot be read or is not known (``key_unknown``), or when there is none.
    """
    try:
        if not given:
            return tuple(_ring(place or find_place()))
        return tuple(_named_keys(word, place) for word in given)
    except ConfigurationError as error:
        hint = "" if given else "; say whom you trust: --key FILE"
        raise MalformedError(f"{error.message}{hint}", code=error.reason) from error


def trusted_keys(given: str | None, place: CommandContext) -> list[keys.PublicKey]:
    """The public keys of ``trust``, in a command that takes one ``--key`` at most. Raises MalformedError."""
    return [each.public for each in trust((given,) if given else (), place)]


def _ring(place: CommandContext) -> Iterator[Trusted]:
    known = {key.key_id: key for key in keyring.known_keys(place.home, place.key)}
    found = keyring.trusted_keys(place.home, place.key)
    # Where there is none, the error names the file in which it was looked for.
    for public in found or [keys.load_public(keys.public_path(place.key))]:
        yield Trusted(public, known[public.key_id])


def _named_keys(word: str, place: CommandContext | None) -> Trusted:
    """A file is what it holds; a fingerprint, or its beginning, picks a key that this home trusts already."""
    file = Path(word)
    if file.exists() or not _FINGERPRINT.fullmatch(word):
        public = keys.load_public(file)
        return Trusted(public, keyring.KnownKey(public.key_id, "given", "", "", file))
    matching = [each for each in _ring(place or find_place()) if each.public.key_id.startswith(word.lower())]
    if len(matching) != 1:
        words = f"{len(matching) or 'no'} key(s) of this home begin with {word}: give the key's file (PEM)"
        raise MalformedError(words, code="key_unknown")
    return matching[0]


def key_document(key: keyring.KnownKey | None) -> dict[str, str] | None:
    """Whose key signed, for ``--json``."""
    if key is None:
        return None
    return {"fingerprint": key.key_id, "state": key.state, "file": str(key.file), "retired": key.retired}


def key_words(key: keyring.KnownKey | None) -> str:
    """Whose key signed, for people; empty where no trusted one did."""
    return f"{key.key_id} ({key.whose}; {key.file})" if key is not None else ""


def verification_document(checked: Checked) -> dict[str, Any]:
    """The document of ``verify --json``."""
    document: dict[str, Any] = msgspec.to_builtins(checked.result, enc_hook=str)
    return {"ok": checked.result.ok, "outcome": checked.result.outcome, **document, "key": key_document(checked.key)}


def verdict_lines(checked: Checked) -> list[str]:
    """The verdict for people."""
    result, signer = checked.result, key_words(checked.key)
    name = f"{result.run_id or 'bundle'} ({result.status or 'unknown'})"
    if result.ok:
        signed = result.signer != ""
        return [
            f"✔ {name}: all {result.files} files are as they were {'signed' if signed else 'written'}",
            f"  signed by {signer}" if signed else "  NOT SIGNED: anybody may have written this bundle",
            f"  checked   {', '.join(step.partition(' ')[2] for step in result.checked)}",
            *(f"  approval  {words}" for words in result.approved),
            "  a bundle alone cannot tell:",
            *(f"    {words}" for words in result.unchecked),
        ]
    lines = [f"✘ {name}: {result.outcome.replace('_', ' ')}"]
    lines += [f"  {f.path or result.location}: {f.code}: {f.message}" for f in result.findings[:MOST_FINDINGS]]
    more = len(result.findings) - MOST_FINDINGS
    lines += [f"  ... and {more} more"] if more > 0 else []
    return [*lines, f"  signed by {signer}"] if signer else lines
