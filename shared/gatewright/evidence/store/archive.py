"""A bundle as one file: a deterministic ZIP archive without compression. Read as hostile input.

Its content is not trusted: ``verify`` checks the unpacked folder like any other.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gatewright.errors import StoreError
from gatewright.evidence.disk import READ_ONLY
from gatewright.evidence.store.objects import MAX_ARCHIVE_BYTES

#: Maximum entries of an archive without ZIP64, and maximum bytes of its table.
MAX_ENTRIES = 65_534
MAX_TABLE_BYTES = 32 << 20
_BLOCK = 1 << 20
_END = struct.Struct("<4s4H2LH")
_LONGEST_PATH, _LONGEST_NAME = 1024, 255


def pack(folder: Path, archive: Path, *, top: str = "") -> None:
    """Write the plain files below ``folder`` to the new file ``archive``, ordered by path.

    Args:
        folder: the bundle.
        archive: the new file.
        top: folder name inside the archive, for people who unpack it by hand.

    Raises:
        StoreError: the bundle is too large (``stored_bundle_too_large``).
        OSError: the archive cannot be written.
    """
    paths = sorted(_stored_files(folder))
    if len(paths) > MAX_ENTRIES:
        raise _too_large(f"{len(paths)} files are more than an archive holds")
    try:
        with zipfile.ZipFile(archive, "x", zipfile.ZIP_STORED, allowZip64=False) as packed:
            for path in paths:
                entry = zipfile.ZipInfo(f"{top}/{path}" if top else path)  # dated 1980: no time of this host
                entry.create_system, entry.external_attr = 3, (0o100000 | READ_ONLY) << 16
                entry.file_size = (folder / path).stat().st_size
                with (folder / path).open("rb") as source, packed.open(entry, "w") as target:
                    while block := source.read(_BLOCK):
                        target.write(block)
    except (zipfile.LargeZipFile, RuntimeError) as error:
        raise _too_large(f"a bundle in a store has {MAX_ARCHIVE_BYTES} bytes at most") from error
    if archive.stat().st_size > MAX_ARCHIVE_BYTES:
        raise _too_large(f"a bundle in a store has {MAX_ARCHIVE_BYTES} bytes at most")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack ``archive`` into the new folder ``folder``: plain files with legal and distinct names, read-only.

    Raises:
        StoreError: the archive is invalid (``stored_bundle_altered``).
        OSError: this host cannot store it.
    """
    size = archive.stat().st_size
    with archive.open("rb") as file:
        _check_end(file, size)
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as packed:
                _unpack(packed, folder, size)
        except (
            zipfile.BadZipFile,
            struct.error,
            RuntimeError,
            NotImplementedError,
            EOFError,
            ValueError,
            UnicodeError,
        ) as error:
            raise _altered_error("it is no archive of a bundle") from error


def _unpack(packed: zipfile.ZipFile, folder: Path, size: int) -> None:
    entries = packed.infolist()
    names = {entry.filename for entry in entries}
    if len(names) != len(entries) or any(_parents(name) & names for name in names):
        raise _altered_error("it holds a name twice")
    if sum(entry.file_size for entry in entries) > size:
        raise _altered_error("its entries claim more bytes than it has")
    folder.mkdir(parents=True)
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or not is_plain_path(entry.filename):
            raise _altered_error("it holds what no bundle holds: another name, compression or encryption")
        place = folder / entry.filename
        place.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, READ_ONLY)
        with os.fdopen(fd, "wb") as target, packed.open(entry) as source:
            left = entry.file_size
            while block := source.read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise _altered_error("an entry is longer than it claims")
                target.write(block)


def _check_end(file: BinaryIO, size: int) -> None:
    """Check the size of the table before it is read into memory. Nothing may follow it."""
    if size < _END.size:
        raise _altered_error("it is cut off")
    file.seek(size - _END.size)
    mark, disk, table_disk, here, entries, table, start, comment = _END.unpack(file.read(_END.size))
    whole = mark == b"PK\x05\x06" and disk == table_disk == 0 and here == entries and comment == 0
    if not whole or start + table + _END.size != size or entries > MAX_ENTRIES or table > MAX_TABLE_BYTES:
        raise _altered_error("it is cut off, or no archive of a bundle")


def is_plain_path(name: str) -> bool:
    """Return whether a relative path has only short printable names, without ``.`` and ``..``."""
    parts = name.split("/")
    readable = name.isprintable() and "\\" not in name and len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_PATH
    return readable and all(part not in {"", ".", ".."} and len(part.encode()) <= _LONGEST_NAME for part in parts)


def _parents(name: str) -> set[str]:
    parts = name.split("/")[:-1][:64]
    return {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _stored_files(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield str((Path(parent) / name).relative_to(folder))


def _altered_error(why: str) -> StoreError:
    return StoreError(f"what the store gave for the bundle was altered: {why}", code="stored_bundle_altered")


def _too_large(why: str) -> StoreError:
    return StoreError(why, code="stored_bundle_too_large")
