"""A bundle's content for people: its events as far as they are valid, and its files. It verifies nothing.

``verify`` decides whether the bundle proves its claims. Here a broken bundle is still read as far as possible, so that it
can be displayed; links are not followed and nothing large is held in memory.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gatewright.contracts import OrchestratorEvent, RunManifest, codec
from gatewright.contracts.records import FileRecord
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory, ended_history
from gatewright.evidence.verification.reading import scan
from gatewright.run.evolve import evolve
from gatewright.run.state import Run

#: Events and manifest beyond this size are not read for a report.
MAX_READ_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A file, or its beginning and its end. ``left_out`` counts the bytes between them."""

    head: bytes
    tail: bytes
    size: int

    @property
    def left_out(self) -> int:
        return self.size - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class BundleAccount:
    """The content of a bundle. ``history`` exists for an ended run only; ``trouble`` is why later events are invalid.

    ``files`` are path and size in bytes of every plain file, sorted; ``odd`` are other entries; ``listed`` is the
    manifest's list, unchecked.
    """

    folder: Path
    files: dict[str, int]
    odd: dict[str, str]
    listed: dict[str, FileRecord]
    records: tuple[OrchestratorEvent, ...]
    run: Run | None
    history: RunHistory | None
    trouble: str

    def excerpt(self, path: str, limit: int) -> Excerpt:
        """Return at most ``limit`` bytes of a file: all, or its beginning and end. Empty if it cannot be read."""
        if path not in self.files:
            return Excerpt(b"", b"", 0)
        try:
            return _excerpt(self.folder, path, limit)
        except OSError:
            return Excerpt(b"", b"", 0)


def read_account(folder: Path) -> BundleAccount:
    """Read the bundle in ``folder``. Raises MalformedError (``not_a_bundle``) only where there is no folder to read."""
    try:
        shape = scan(folder)
    except OSError as error:
        raise MalformedError(f"{folder} cannot be read: {error.strerror or error}", code="not_a_bundle") from error
    records, run, trouble = _events(folder, shape.files)
    history = None
    if run is not None and run.ended and not trouble:
        try:
            history = ended_history(run, records)
        except MalformedError as error:
            trouble = error.message
    files = dict(sorted(shape.files.items()))
    return BundleAccount(folder, files, shape.odd, _listed_files(folder, files), records, run, history, trouble)


def _events(folder: Path, files: dict[str, int]) -> tuple[tuple[OrchestratorEvent, ...], Run | None, str]:
    if layout.EVENTS not in files:
        return (), None, "there are no events"
    try:
        data = _read_whole(folder, layout.EVENTS)
    except (OSError, MalformedError) as error:
        return (), None, f"the events cannot be read: {error}"
    records: list[OrchestratorEvent] = []
    run: Run | None = None
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        try:
            record = codec.decode(line, OrchestratorEvent)
            run = evolve(run, record)
        except MalformedError as error:
            return tuple(records), run, f"the events can be followed up to line {number}: {error.message}"
        records.append(record)
    return tuple(records), run, "" if records else "there are no events"


def _listed_files(folder: Path, files: dict[str, int]) -> dict[str, FileRecord]:
    if layout.MANIFEST not in files:
        return {}
    try:
        manifest = codec.decode(_read_whole(folder, layout.MANIFEST), RunManifest)
    except (OSError, MalformedError):
        return {}
    return {record.path: record for record in manifest.integrity.files} if manifest.integrity else {}


def _read_whole(folder: Path, path: str) -> bytes:
    found = _excerpt(folder, path, MAX_READ_BYTES)
    if found.left_out:
        raise MalformedError(f"{path} has {found.size} bytes; more than {MAX_READ_BYTES} are not read")
    return found.head


def _excerpt(folder: Path, path: str, limit: int) -> Excerpt:
    # Non-blocking, in case a pipe was put there since the scan; no link is followed.
    fd = os.open(f"{folder}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a plain file")
        if status.st_size <= limit:
            data = file.read(limit)
            return Excerpt(data, b"", len(data))
        head = file.read(limit // 2)
        file.seek(status.st_size - limit // 2)
        return Excerpt(head, file.read(limit // 2), status.st_size)
