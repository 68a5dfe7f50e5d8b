"""Writes run bundles: the events during a run, and the complete signed bundle after its end.

A bundle is a projection of the ledger (``projection.py``): it can be rebuilt at any time with the same result, so a crash at
any step is repaired by repeating it. The manifest is renamed into place last: if it exists, everything else does.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gatewright.contracts import OrchestratorEvent, Tombstone, Transition, codec
from gatewright.errors import MalformedError, UnavailableError, VerificationError
from gatewright.evidence import event_log, layout
from gatewright.evidence.disk import Disk
from gatewright.evidence.projection.history import ended_history, evidence_records
from gatewright.evidence.projection.manifest import file_record, make_manifest, span_of
from gatewright.evidence.projection.materials import ArtifactSource, materialize
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.statement import make_statements
from gatewright.evidence.tombstone import read_tombstone
from gatewright.file_locks import lock_folder
from gatewright.run.events import ABOUT_BUNDLES
from gatewright.run.state import Run

#: Seconds to wait for a folder that another process writes: to append events, which the seal can complete, and to seal.
APPEND_PATIENCE = 1.0
SEAL_PATIENCE = 5.0
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS})
#: Error code when the disk cannot store the data.
UNWRITABLE = "bundle_unwritable"
_DRAFT = ".manifest.json.draft"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A bundle on disk: the digest of its manifest, the key id of its signer, the folder; its progress packet if it has one."""

    manifest_sha256: str
    signer: str
    location: str
    packet: bytes = b""


class BundleWriter:
    """Writer of the bundles below ``root``, one folder per run. Safe for any number of processes on one host."""

    #: Whether ``seal`` uses an external system, which may be slow: then nothing else should wait for it.
    outside = False

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self._root = root.absolute()
        self._disk = disk or Disk()
        self._tails: dict[str, event_log.LogTail] = {}
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def append(self, run: Run, records: Sequence[OrchestratorEvent]) -> bool:
        """Append the ``records`` that events.jsonl lacks, durably.

        Returns:
            False when the records have a gap to the file (another gatekeeper wrote the events between), or another process uses
                the folder. Nothing is written then, and the seal completes the file.

        Raises:
            UnavailableError: the disk cannot store the data (``bundle_unwritable``).
        """
        wanted = [record for record in records if record.event_type not in ABOUT_BUNDLES]
        if not wanted:
            return True
        async with self._turn(run.run_id):
            return await asyncio.to_thread(self._append, run.run_id, wanted)

    async def seal(
        self,
        run: Run,
        transitions: Sequence[Transition],
        artifacts: ArtifactSource,
        signer: Signer,
        sequences: Sequence[int] = (),
    ) -> Sealed:
        """Write and sign the complete bundle of an ended run. A repetition gives the same bytes.

        Nothing is written for a run with a tombstone of this signer.

        Args:
            run: the ended run.
            transitions: all transitions of the run; a seal among them is ignored.
            artifacts: the artifact store.
            signer: the signer.
            sequences: positions in the ledger's stream; empty for a run without a ledger, whose manifest then has none.

        Raises:
            MalformedError: the run is open.
            ArtifactError: an artifact is missing.
            BusError: the artifact store does not answer.
            UnavailableError: the disk cannot store the data (``bundle_unwritable``); seal again later.
        """
        history = ended_history(run, evidence_records(transitions))
        stone = await asyncio.to_thread(self._tombstone, run.run_id, signer)
        if stone is not None:
            return Sealed(stone.manifest_sha256, signer.key_id, str(self._root / run.run_id))
        files = await materialize(history, artifacts)
        listed = [file_record(path, data) for path, data in files.items()]
        span = span_of(transitions, sequences)
        manifest = codec.encode(make_manifest(history, listed, span=span, signer=signer.key_id))
        statements = make_statements(history, manifest, {file.path: file.sha256 for file in listed})
        files |= {path: signer.envelope(statement) for path, statement in statements.items()}
        async with self._turn(run.run_id):
            location = await asyncio.to_thread(self._seal, run.run_id, files, manifest)
        packet = files.get(layout.PROGRESS_PACKET, b"")
        return Sealed(hashlib.sha256(manifest).hexdigest(), signer.key_id, str(location), packet)

    async def check(self) -> None:
        """Check whether bundles can be written, as far as possible before there is one."""

    def copies(self) -> Sequence[str]:
        """Return the runs whose local folder is temporary: none, since bundles stay in their folder."""
        return ()

    async def settled(self, run_id: str, location: str) -> None:
        """Handle the confirmed seal of a run, whose bundle is at ``location``. A bundle in a folder stays there."""

    async def withdraw(self, run_id: str, manifest_sha256: str) -> None:
        """Remove the manifest and the signatures of a rejected bundle; its other files stay.

        A different bundle in the folder is left alone.

        Raises:
            UnavailableError: the disk cannot be written (``bundle_unwritable``).
        """

        def withdraw() -> None:
            with self._own_folder(run_id) as folder:
                manifest = folder / layout.MANIFEST
                if manifest.is_file() and hashlib.sha256(manifest.read_bytes()).hexdigest() == manifest_sha256:
                    self._unsign(folder)
                    self._disk.sync([folder])

        async with self._turn(run_id):
            await asyncio.to_thread(withdraw)

    def _tombstone(self, run_id: str, signer: Signer) -> Tombstone | None:
        """Return the tombstone of this run's bundle, which must not be rebuilt.

        A tombstone that this signer did not sign is ignored: the bundle replaces it.
        """
        try:
            found = read_tombstone(self._root / layout.safe(run_id), [signer.public])
        except (MalformedError, VerificationError):
            return None
        return found[0] if found is not None and found[0].run_id == run_id else None

    def _turn(self, run_id: str) -> asyncio.Lock:
        turn = self._turns.get(run_id)
        if turn is None:
            turn = self._turns[run_id] = asyncio.Lock()
        return turn

    def _append(self, run_id: str, records: Sequence[OrchestratorEvent]) -> bool:
        with self._folder(run_id, APPEND_PATIENCE) as folder:
            if folder is None:
                return False
            path = folder / layout.EVENTS
            tail = self._tails.get(run_id)
            first = tail is None
            if tail is None or not path.is_file() or path.stat().st_size != tail.size:
                tail = event_log.read(path)
            tail = event_log.append(path, tail, records, self._disk)
            if first:
                self._disk.sync([folder, self._root])
            self._tails[run_id] = tail
        return tail.head == records[-1].hash

    def _seal(self, run_id: str, files: Mapping[str, bytes], manifest: bytes) -> Path:
        """Make the folder contain exactly ``files`` and the manifest.

        1. Remove the manifest if anything differs.
        2. Remove unknown files and write different ones, the signatures after everything that they cover.
        3. Make everything durable.
        4. Write the manifest last.

        After a disk error neither signatures nor a manifest are left.
        """
        disk = self._disk
        self._tails.pop(run_id, None)
        with self._own_folder(run_id) as folder:
            final = folder / layout.MANIFEST
            folders = layout.folders_of(files)
            strays = list(_strays(folder, {layout.MANIFEST, *files}, folders))
            firsts = _firsts(files)
            kept = {path for path, data in files.items() if _same(folder / path, data, _namesakes(folder, path, firsts))}
            sealed = _same(final, manifest) and not strays and len(kept) == len(files)
            if not sealed and (final.is_file() or final.is_symlink()):  # 1
                disk.remove(final)
            for stray in strays:  # 2
                disk.remove(stray)
            for name in sorted(folders):
                disk.make_folder(folder / name)
            try:
                for path, data in sorted(files.items(), key=lambda file: file[0] in layout.ENVELOPES):
                    if path in kept:
                        disk.protect(folder / path)
                    elif not self._link_first(folder, firsts.get(path), path):
                        disk.create(folder / path, data)
                disk.sync([folder, *(folder / path for path in (*files, *folders))])  # 3
                if not sealed:  # 4
                    disk.create(folder / _DRAFT, manifest)
                    disk.sync([folder / _DRAFT])
                    disk.rename(folder / _DRAFT, final)
                disk.sync([folder, self._root])
            except OSError:
                if not sealed:
                    self._unsign(folder)
                raise
        return folder

    def _link_first(self, folder: Path, first: str | None, path: str) -> bool:
        """Store a large file once: make ``path`` a further name of ``first``. Return whether it is now."""
        if first is None or first == path:
            return False
        try:
            self._disk.link(folder / first, folder / path)
        except OSError as error:
            # A file system without hard links, or too many links: write the bytes again.
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def _unsign(self, folder: Path) -> None:
        """Remove all signatures of an incomplete bundle."""
        for name in (layout.MANIFEST, *layout.ENVELOPES, _DRAFT):
            with suppress(OSError):
                self._disk.remove(folder / name)

    @contextmanager
    def _own_folder(self, run_id: str) -> Iterator[Path]:
        """Lock the run's folder. Raises UnavailableError, also when another process does not release it."""
        with self._folder(run_id, SEAL_PATIENCE) as folder:
            if folder is None:
                words = f"{self._root / run_id}: another process has had it for {SEAL_PATIENCE:g} s"
                raise UnavailableError(words, code=UNWRITABLE)
            yield folder

    @contextmanager
    def _folder(self, run_id: str, patience: float) -> Iterator[Path | None]:
        """Lock the run's folder for this process until exit; yield None when another process holds it for ``patience`` seconds.

        A process stopped in the middle must not block those that continue its work. Raises UnavailableError.
        """
        folder = self._root / layout.safe(run_id)
        try:
            self._disk.make_folder(folder)
            try:
                fd = lock_folder(folder, seconds=patience)
            except BlockingIOError:
                yield None
                return
            try:
                yield folder
            finally:
                os.close(fd)
        except OSError as error:
            raise UnavailableError(f"{folder}: {error.strerror or error}", code=UNWRITABLE) from error


def _firsts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return large file -> the first in order with the same bytes, possibly itself.

    The log is never shared, because it grows.
    """
    seen: dict[bytes, str] = {}
    large = ((path, data) for path, data in sorted(files.items()) if len(data) >= layout.SHARED_FROM and path != layout.EVENTS)
    return {path: seen.setdefault(data, path) for path, data in large}


def _namesakes(folder: Path, path: str, firsts: Mapping[str, str]) -> list[Path]:
    """Return all names that a large file may have in its bundle."""
    return [folder / name for name, first in firsts.items() if path in firsts and first == firsts[path]]


def _same(path: Path, data: bytes, others: Iterable[Path] = ()) -> bool:
    """Return whether ``path`` is a plain file with these bytes, and no names except its own and ``others``."""
    try:
        status = path.lstat()
        names = sum(other.lstat().st_ino == status.st_ino for other in others if os.path.lexists(other))
    except OSError:
        return False
    regular = path.is_file() and not path.is_symlink() and status.st_nlink == max(1, names)
    return regular and status.st_size == len(data) and path.read_bytes() == data


def _strays(folder: Path, files: set[str], folders: set[str]) -> Iterator[Path]:
    """Yield everything in ``folder`` that is not part of the bundle, innermost first; links are not followed."""
    for parent, subfolders, names in os.walk(folder, topdown=False):
        here = Path(parent)
        for name in names:
            if str((here / name).relative_to(folder)) not in files:
                yield here / name
        for name in subfolders:
            path = here / name
            if path.is_symlink() or str(path.relative_to(folder)) not in folders:
                yield path
