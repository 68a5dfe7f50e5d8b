"""Which bundle a command means, and which keys it trusts.

A bundle is a folder, an archive, a run of the home folder, or an object of a store. What comes from a store or an archive lies
in a temporary folder that is removed when the command ends.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.runs.sources import RUNS_FOLDER, BundleSource, find_run
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.cli.settings import load as load_settings
from gatewright.errors import ConfigurationError, MalformedError, StoreError
from gatewright.evidence import layout
from gatewright.evidence.layout import is_safe
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.store.address import StoreAddress, is_address, is_run, parse_run, parse_store
from gatewright.evidence.store.archive import unpack
from gatewright.evidence.store.fetching import fetch, open_reader, open_store
from gatewright.evidence.store.objects import MAX_ARCHIVE_BYTES, ObjectStore
from gatewright.evidence.store.policy import STORES_FILE
from gatewright.host_errors import host_errors

if TYPE_CHECKING:
    from gatewright.client.client import Client

#: More findings than this are counted, not listed, for people.
MOST_FINDINGS = 20
#: A key id, or so much of its beginning that it cannot be made to fit another key.
_FINGERPRINT = re.compile(r"[0-9a-fA-F]{16,64}")  # noqa: TID251 - linear: one class


def is_outside_home(given: str) -> bool:
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
    if given is not None and is_outside_home(given):
        return find_elsewhere(given)
    # A pruned bundle tells no run any more, and its tombstone can be verified all the same.
    if given is not None and is_safe(given) and (place.home / RUNS_FOLDER / given).is_dir():
        return place.home / RUNS_FOLDER / given
    store = load_settings().bundle_store
    if given is not None and is_run(given) and store:
        return fetch_from_store(store, given)
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
            return tuple(_home_keys(place or find_place()))
        return tuple(_named_keys(word, place) for word in given)
    except ConfigurationError as error:
        hint = "" if given else "; say whom you trust: --key FILE"
        raise MalformedError(f"{error.message}{hint}", code=error.reason) from error


def trusted_keys(given: str | None, place: CommandContext) -> list[keys.PublicKey]:
    """The public keys of ``trust``, in a command that takes one ``--key`` at most. Raises MalformedError."""
    return [each.public for each in trust((given,) if given else (), place)]


def _home_keys(place: CommandContext) -> Iterator[Trusted]:
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
    matching = [each for each in _home_keys(place or find_place()) if each.public.key_id.startswith(word.lower())]
    if len(matching) != 1:
        words = f"{len(matching) or 'no'} key(s) of this home begin with {word}: give the key's file (PEM)"
        raise MalformedError(words, code="key_unknown")
    return matching[0]


def fetch_bundle(address: str, into: Path | None = None) -> Path:
    """The bundle at ``STORE/RUN`` in a folder that is called after its run: below ``into``, or one that goes with the process.

    Raises StoreError, ConfigurationError.
    """
    place, run_id = parse_run(address)
    return fetch(
        open_reader(place, STORES_FILE.load(AgentSettings.load().policies).policy), run_id, into or _temporary_folder()
    )


async def receive_bundle(client: Client, run_id: str, into: Path) -> Path:
    """The bundle of a run, as the gatekeeper gives it over the bus, in the new folder ``into / run_id``.

    Raises as ``receive_bundle`` does, StoreError (``stored_bundle_altered``), MalformedError (``output_unwritable``).
    """
    try:
        await asyncio.to_thread(into.mkdir, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=into, prefix=".received-", suffix=".zip") as file:
            told = await client.receive_bundle(run_id, file.file, limit=MAX_ARCHIVE_BYTES)
            file.flush()
            await asyncio.to_thread(_unpack_received, Path(file.name), into / run_id, told.manifest_sha256)
    except OSError as error:
        raise MalformedError(f"{into}: {error.strerror or error}", code="output_unwritable") from error
    return into / run_id


def _unpack_received(archive: Path, folder: Path, manifest_sha256: str) -> None:
    unpack(archive, folder)
    manifest = folder / layout.MANIFEST
    if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != manifest_sha256:
        raise StoreError(f"the gatekeeper gave another bundle for {folder.name}", code="stored_bundle_altered")


def unpack_archive(archive: Path) -> Path:
    """The bundle in an archive that a person has downloaded, in a folder that goes with the process.

    Raises MalformedError (``not_a_bundle``), HostError.
    """
    folder = _temporary_folder() / archive.stem
    try:
        with host_errors():
            unpack(archive, folder)
    except StoreError as error:
        why = error.message.partition("altered: ")[2]
        words = f"{archive}: {why}; unpack it with another program, and give the folder"
        raise MalformedError(words, code="not_a_bundle") from error
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder


def fetch_from_store(store: str, run_id: str) -> Path:
    """The bundle of a run in the store that the settings name. Raises StoreError, ConfigurationError."""
    return fetch_bundle(parse_store(store).run(run_id))


def store_at(address: StoreAddress) -> ObjectStore:
    """The store, to be written. Raises StoreError, ConfigurationError."""
    return open_store(address, STORES_FILE.load(AgentSettings.load().policies).policy)


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gatewright-bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
