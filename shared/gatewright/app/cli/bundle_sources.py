"""Resolution of the bundle that a command names, and of the keys that it trusts.

A bundle is a folder, an archive, a run of the home folder, or an object of a store. Bundles of a store or an archive are placed
in a temporary folder, which is removed when the command ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.runs.sources import RUNS_FOLDER, BundleSource, find_run, run_of
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
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.runs.sources import RunSource
    from gatewright.client.client import Client
    from gatewright.run.state import Run

#: Maximum findings to list for people; the others are counted.
MOST_FINDINGS = 20
#: A key id, or a beginning long enough that an attacker cannot make another key with it.
_FINGERPRINT = re.compile(r"[0-9a-fA-F]{16,64}")  # noqa: TID251 - linear: one class


def is_outside_home(given: str) -> bool:
    return is_address(given) or Path(given).is_dir() or (given.endswith(".zip") and Path(given).is_file())


def find_elsewhere(given: str) -> Path:
    """Return the bundle of a path or store address, without reading a home folder.

    Raises StoreError, MalformedError (``not_a_bundle``).
    """
    if is_address(given):
        return fetch_bundle(given)
    return unpack_archive(Path(given)) if Path(given).is_file() else Path(given)


def find_bundle(given: str | None, place: CommandContext) -> Path:
    """Return the bundle that ``given`` names: a folder, an archive, or a run (or its beginning) of the home folder.

    None means the newest run there. A bundle in a store is fetched: by its address, or by the full id of its run where the
    settings name the store. Raises MalformedError, StoreError.
    """
    if given is not None and is_outside_home(given):
        return find_elsewhere(given)
    # A pruned bundle has no events to find its run by, but its tombstone can still be verified.
    if given is not None and is_safe(given) and (place.home / RUNS_FOLDER / given).is_dir():
        return place.home / RUNS_FOLDER / given
    store = load_settings().bundle_store
    if given is not None and is_run(given) and store:
        return fetch_from_store(store, given)
    run_id = asyncio.run(find_run(BundleSource(place.home, lambda _: None), given))
    return place.home / RUNS_FOLDER / run_id


@dataclass(frozen=True, slots=True)
class Trusted:
    """A trusted key and its origin."""

    public: keys.PublicKey
    known: keyring.KnownKey


def trust(given: Sequence[str], place: CommandContext | None = None) -> tuple[Trusted, ...]:
    """Return the given keys, as files or as fingerprints of known keys; by default all keys that this home folder trusts.

    Raises MalformedError if a key cannot be read or is unknown (``key_unknown``), or if there is none.
    """
    try:
        if not given:
            return tuple(_home_keys(place or find_place()))
        return tuple(_named_keys(word, place) for word in given)
    except ConfigurationError as error:
        hint = "" if given else "; name the key that you trust: --key FILE"
        raise MalformedError(f"{error.message}{hint}", code=error.reason) from error


def trusted_keys(given: str | None, place: CommandContext) -> list[keys.PublicKey]:
    """Return the public keys of ``trust``, for a command with at most one ``--key``. Raises MalformedError."""
    return [each.public for each in trust((given,) if given else (), place)]


def _home_keys(place: CommandContext) -> Iterator[Trusted]:
    known = {key.key_id: key for key in keyring.known_keys(place.home, place.key)}
    found = keyring.trusted_keys(place.home, place.key)
    # Without a key, the error names the file that was searched for.
    for public in found or [keys.load_public(keys.public_path(place.key))]:
        yield Trusted(public, known[public.key_id])


def _named_keys(word: str, place: CommandContext | None) -> Trusted:
    """Resolve a key: the content of a file, or the known key with this fingerprint or beginning."""
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
    """Fetch the bundle at ``STORE/RUN`` into a folder named after its run: below ``into``, or a temporary one.

    Raises StoreError, ConfigurationError.
    """
    place, run_id = parse_run(address)
    return fetch(open_reader(place, STORES_FILE.load(AgentSettings.load().policies).policy), run_id, into or temporary_folder())


async def receive_bundle(client: Client, run_id: str, into: Path) -> Path:
    """Fetch the bundle of a run from the gatekeeper, over the bus, into the new folder ``into / run_id``.

    Raises as the client's ``receive_bundle``, StoreError (``stored_bundle_altered``), MalformedError (``output_unwritable``).
    """
    try:
        await asyncio.to_thread(into.mkdir, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=into, prefix=".received-", suffix=".zip") as file:
            received = await client.receive_bundle(run_id, file.file, limit=MAX_ARCHIVE_BYTES)
            file.flush()
            await asyncio.to_thread(_unpack_received, Path(file.name), into / run_id, received.manifest_sha256)
    except OSError as error:
        raise MalformedError(f"{into}: {error.strerror or error}", code="output_unwritable") from error
    return into / run_id


def _unpack_received(archive: Path, folder: Path, manifest_sha256: str) -> None:
    unpack(archive, folder)
    manifest = folder / layout.MANIFEST
    if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != manifest_sha256:
        raise StoreError(f"the gatekeeper gave another bundle for {folder.name}", code="stored_bundle_altered")


def unpack_archive(archive: Path) -> Path:
    """Unpack a downloaded archive of a bundle into a temporary folder.

    Raises MalformedError (``not_a_bundle``), HostError.
    """
    folder = temporary_folder() / archive.stem
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
    """Fetch the bundle of a run from the store of the settings. Raises StoreError, ConfigurationError."""
    return fetch_bundle(parse_store(store).run(run_id))


def store_at(address: StoreAddress) -> ObjectStore:
    """Open the store for writing. Raises StoreError, ConfigurationError."""
    return open_store(address, STORES_FILE.load(AgentSettings.load().policies).policy)


def temporary_folder() -> Path:
    """Return a new folder, which is removed when the command ends."""
    folder = Path(tempfile.mkdtemp(prefix="gatewright-bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


async def read_run(wanted: str) -> Run:
    """Return the run with this id, its beginning, or this address. Raises as ``find_run`` does."""
    async with open_source(wanted) as source:
        return (await source.view(await find_run(source, run_of(wanted)))).run


@contextlib.asynccontextmanager
async def open_source(wanted: str | None = None) -> AsyncIterator[RunSource]:
    """Yield the ledger of the running system, or else the bundles of the home folder; for an address, the bundle there."""
    from gatewright.app.cli.output import write_line
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.session import attach_client
    from gatewright.app.stack.state import read

    def warn(text: str) -> None:
        write_line(printable(text), stream=sys.stderr)

    if wanted is not None and is_address(wanted):
        yield BundleSource(fetch_bundle(wanted).parent, warn, folder="")
        return
    place = find_place()
    if place.bus is None and read(place.home) is None:
        yield BundleSource(place.home, warn)
        return
    async with attach_client(place.bus, place.home) as client:
        yield LedgerSource(client, place.own_home)
