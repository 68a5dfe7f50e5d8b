"""Bundles that lie in a store, for commands: fetched into a folder of their own, which goes when the command ends."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.settings import AgentSettings
from gatewright.errors import MalformedError, StoreError
from gatewright.evidence import layout
from gatewright.evidence.store.address import StoreAddress, parse_run, parse_store
from gatewright.evidence.store.archive import unpack
from gatewright.evidence.store.fetching import fetch, open_reader, open_store
from gatewright.evidence.store.objects import MAX_ARCHIVE_BYTES, ObjectStore
from gatewright.evidence.store.policy import STORES_FILE
from gatewright.host_errors import host_errors

if TYPE_CHECKING:
    from gatewright.client.client import Client


def fetch_bundle(address: str, into: Path | None = None) -> Path:
    """The bundle at ``STORE/RUN`` in a folder that is called after its run: below ``into``, or one that goes with the process.

    Raises StoreError, ConfigurationError.
    """
    place, run_id = parse_run(address)
    return fetch(open_reader(place, STORES_FILE.load(AgentSettings.load().policies).policy), run_id, into or _passing_folder())


async def receive_bundle(client: Client, run_id: str, into: Path) -> Path:
    """The bundle of a run, as the gatekeeper gives it over the bus, in the new folder ``into / run_id``.

    Raises as ``receive_bundle`` does, StoreError (``stored_bundle_altered``), MalformedError (``output_unwritable``).
    """
    try:
        await asyncio.to_thread(into.mkdir, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=into, prefix=".received-", suffix=".zip") as file:
            told = await client.receive_bundle(run_id, file.file, limit=MAX_ARCHIVE_BYTES)
            file.flush()
            await asyncio.to_thread(_unpack, Path(file.name), into / run_id, told.manifest_sha256)
    except OSError as error:
        raise MalformedError(f"{into}: {error.strerror or error}", code="output_unwritable") from error
    return into / run_id


def _unpack(archive: Path, folder: Path, manifest_sha256: str) -> None:
    unpack(archive, folder)
    manifest = folder / layout.MANIFEST
    if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != manifest_sha256:
        raise StoreError(f"the gatekeeper gave another bundle for {folder.name}", code="stored_bundle_altered")


def unpack_archive(archive: Path) -> Path:
    """The bundle in an archive that a person has downloaded, in a folder that goes with the process.

    Raises MalformedError (``not_a_bundle``), HostError.
    """
    folder = _passing_folder() / archive.stem
    try:
        with host_errors():
            unpack(archive, folder)
    except StoreError as error:
        why = error.message.partition("altered: ")[2]
        words = f"{archive}: {why}; unpack it with another program, and give the folder"
        raise MalformedError(words, code="not_a_bundle") from error
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder


def fetched_of(store: str, run_id: str) -> Path:
    """The bundle of a run in the store that the settings name. Raises StoreError, ConfigurationError."""
    return fetch_bundle(parse_store(store).run(run_id))


def store_at(address: StoreAddress) -> ObjectStore:
    """The store, to be written. Raises StoreError, ConfigurationError."""
    return open_store(address, STORES_FILE.load(AgentSettings.load().policies).policy)


def _passing_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gatewright-bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
