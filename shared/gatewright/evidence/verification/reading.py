"""Reads a bundle's folder as hostile input: follows no link, opens only plain files, bounds its memory. Interprets nothing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gatewright.bus.artifacts import MAX_ARTIFACT_BYTES
from gatewright.contracts import OrchestratorEvent, RunManifest
from gatewright.contracts.records import FileRecord
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.verification.findings import Findings
from gatewright.run.events import CandidateComposed
from gatewright.run.state import Run

#: Larger documents are not parsed, and a folder with more entries is no bundle. A patch may be as large as any artifact.
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
MAX_PATCH_BYTES = MAX_ARTIFACT_BYTES
MAX_ENTRIES = 100_000
_BLOCK = 1024 * 1024
#: Bytes from which files are read in parallel, and how many in parallel, each with a block of memory.
_TOGETHER_FROM = 8 * _BLOCK
_MOST_TOGETHER = 8
#: A folder with such a name identifies its run.
_RUN_FOLDER = re.compile(r"run-[0-9a-f]{20}")  # noqa: TID251 - linear: of a fixed length


@dataclass(slots=True)
class Shape:
    """Content of a folder: plain files with their size in bytes, folders, and ``path -> code`` of everything else."""

    files: dict[str, int] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    odd: dict[str, str] = field(default_factory=dict)
    #: Hard-linked files by inode number: the names found here, and the total number of names.
    shared: dict[tuple[int, int], tuple[list[str], int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """Size and digest of a file."""

    size: int
    sha256: str


@dataclass(slots=True)
class Reading:
    """A verification in progress: trusted keys, and everything read so far."""

    root: Path
    trusted: tuple[PublicKey, ...]
    #: Whether to check a bundle without a signature too.
    unsigned: bool = False
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    #: Approvals, filled in by the consistency check.
    approved: list[str] = field(default_factory=list)
    shape: Shape = field(default_factory=Shape)
    facts: dict[str, Facts] = field(default_factory=dict)
    manifest_bytes: bytes = b""
    manifest: RunManifest | None = None
    #: Signed payloads, verified or not, by the name of their envelope.
    payloads: dict[str, bytes] = field(default_factory=dict)
    #: Id of the trusted key that signed; empty without one.
    signer: str = ""
    records: tuple[OrchestratorEvent, ...] = ()
    run: Run | None = None
    #: The replayed run after step 6, and the changed paths of its candidate, each terminated by a NUL.
    history: RunHistory | None = None
    names: bytes = b""
    #: Changed paths of every composed candidate, by the URI of their list.
    names_of: dict[str, bytes] = field(default_factory=dict)
    #: Files that follow from the events, without manifest and signatures; empty before they are rebuilt.
    derived: tuple[str, ...] = ()

    @property
    def listed(self) -> dict[str, FileRecord]:
        """The manifest's list, by path."""
        return {file.path: file for file in self.manifest.integrity.files} if self.manifest and self.manifest.integrity else {}

    def patch(self, step: int) -> bytes | None:
        """Return the bytes of the canonical patch, like ``document``."""
        return self.document(layout.PATCH, step, limit=MAX_PATCH_BYTES)

    def place_of(self, uri: str) -> str | None:
        """Return a listed file that has the artifact; None when there is none."""
        digest = layout.digest_of(uri)
        return next((path for path, file in self.listed.items() if file.sha256 == digest), None)

    def patch_of(self, candidate: CandidateComposed | None, step: int) -> bytes:
        """Return the canonical patch of a candidate of any round; empty when it is missing."""
        path = self.place_of(candidate.patch) if candidate is not None else None
        return (self.document(path, step, limit=MAX_PATCH_BYTES) if path is not None else None) or b""

    def document(self, path: str, step: int, *, limit: int | None = None) -> bytes | None:
        """Return the bytes of a document; None, with a finding unless it is simply missing."""
        limit = MAX_DOCUMENT_BYTES if limit is None else limit
        if path not in self.shape.files:
            return None
        try:
            facts, data = read(self.root, path, keep=limit)
        except OSError as error:
            self.findings.incomplete(step, "unreadable", path, f"cannot be read: {error.strerror or error}")
            return None
        if data is None:
            self.findings.malformed(step, "too_large", path, f"more than {limit} bytes are no document")
        if self.facts.setdefault(path, facts) != facts:
            self.findings.wrong(step, "changing", path, "it changes while it is being read")
        return data


def runs_named(bundle: Path) -> frozenset[str]:
    """Return the run ids in the folder's name: as given, and with links resolved."""
    names = (bundle.absolute().name, bundle.resolve().name)
    return frozenset(name for name in names if _RUN_FOLDER.fullmatch(name))


def scan(root: Path) -> Shape:
    """Return everything below ``root``, by path with ``/``.

    Raises:
        MalformedError: ``not_a_bundle``, ``too_many_files``.
        OSError: the folder cannot be read.
    """
    shape = Shape()
    if not root.is_dir():
        raise MalformedError(f"{root} is not a folder", code="not_a_bundle")
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                path = prefix + entry.name
                _enter(shape, show_path(path), entry.stat(follow_symlinks=False))
                if len(shape.files) + len(shape.folders) + len(shape.odd) > MAX_ENTRIES:
                    raise MalformedError(f"more than {MAX_ENTRIES} files", code="too_many_files")
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")
    for paths, names in shape.shared.values():
        # A large file may have several names inside its bundle. A name outside would allow changes after the check.
        for path in paths if names != len(paths) or shape.files[paths[0]] < layout.SHARED_FROM else ():
            del shape.files[path]
            shape.odd[path] = "hard_link"
    return shape


def show_path(path: str) -> str:
    """Return a path for display and JSON: bytes that are not UTF-8 become ``\\xNN``. No listed file can have such a name."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read(root: Path, path: str, *, keep: int = 0) -> tuple[Facts, bytes | None]:
    """Return size and sha256 of a plain file, and its bytes if there are at most ``keep``.

    Raises:
        OSError: the file cannot be read.
    """
    digest, size, blocks = hashlib.sha256(), 0, []
    fd = _open_file(root, path)
    try:
        buffer = bytearray(min(_BLOCK, os.fstat(fd).st_size + 1))
        view = memoryview(buffer)
        while count := os.readv(fd, [buffer]):
            digest.update(view[:count])
            size += count
            if size <= keep:
                blocks.append(bytes(view[:count]))
    finally:
        os.close(fd)
    return Facts(size, digest.hexdigest()), b"".join(blocks) if keep and size <= keep else None


def read_all(root: Path, paths: Sequence[str], size: int) -> Iterator[Facts | OSError]:
    """Yield size and sha256 of plain files in order, or the error that prevented reading.

    Hashing releases the interpreter lock, so it uses all processors.

    Args:
        root: the bundle.
        paths: the files.
        size: their total bytes, as far as known.
    """
    if size < _TOGETHER_FROM:
        yield from (_facts(root, path) for path in paths)
        return
    with ThreadPoolExecutor(min(_MOST_TOGETHER, len(os.sched_getaffinity(0)))) as readers:
        yield from readers.map(partial(_facts, root), paths)


def _facts(root: Path, path: str) -> Facts | OSError:
    try:
        return read(root, path)[0]
    except OSError as error:
        return error


def digest_of_all(root: Path, paths: Iterable[str]) -> str:
    """Return the sha256 of the concatenated files.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        with os.fdopen(_open_file(root, path), "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _open_file(root: Path, path: str) -> int:
    # Non-blocking, in case a pipe was put there since the scan; the opened file is checked again.
    fd = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a plain file")
    return fd


def _enter(shape: Shape, path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        shape.folders.add(path)
    elif stat.S_ISLNK(status.st_mode):
        shape.odd[path] = "symlink"
    elif not stat.S_ISREG(status.st_mode):
        shape.odd[path] = "special_file"
    else:
        shape.files[path] = status.st_size
        if status.st_nlink != 1:
            shape.shared.setdefault((status.st_dev, status.st_ino), ([], status.st_nlink))[0].append(path)
