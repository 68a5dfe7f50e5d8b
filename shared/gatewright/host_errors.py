"""Failures of this host as stable codes with advice, from errors of the operating system.

An error in the table below is about the host; any other one (a missing file) is about the program, and is left unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gatewright.errors import GatewrightError, HostError, MalformedError, UnavailableError
from gatewright.reasons import REASONS

#: Reasons (``error.reason``): a disk of this host, or the store of the bus, is full.
DISK_FULL: Final = "disk_full"
BUS_FULL: Final = "bus_storage_full"
#: The maximum number of calls to the host of a repository is running.
REPOSITORY_HOST_BUSY: Final = "repository_host_busy"
#: Conditions that pass: work that meets one waits, for any length of time, and has not failed.
WAITED_FOR: Final = frozenset({DISK_FULL, BUS_FULL, REPOSITORY_HOST_BUSY})

#: Bytes that work of any kind leaves free on a volume. A NATS server that finds none writes nothing more until it restarts.
LEAST_FREE: Final = 32 << 20
#: Files that may still be made on it.
_LEAST_FILES = 256
_LOOK_AGAIN = 1.0

_ROOM: Final = REASONS[DISK_FULL].advice
_CODES: Final = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EROFS: "disk_read_only",
    errno.EIO: "disk_failed",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EMFILE: "too_many_open_files",
    errno.ENFILE: "too_many_open_files",
    errno.ENOMEM: "memory_exhausted",
    errno.EAGAIN: "too_many_processes",
}
#: Messages of programs in the C locale about a full volume. A line from another host is about that host.
_FULL = re.compile(r"No space left on device|Disk quota exceeded")  # noqa: TID251 - linear: of a fixed length
_FOREIGN = re.compile(r"\s*remote:")  # noqa: TID251 - linear: anchored at the line's beginning


def host_error(error: BaseException) -> HostError | None:
    """Return ``error`` as an error of this host; None if it is not one."""
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(error, OSError) or error.errno not in _CODES:
        return None
    code = _CODES[error.errno]
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | Path) else ""
    return HostError(f"{place}{os.strerror(error.errno)}; {REASONS[code].advice}", code=code)


def too_deep() -> MalformedError:
    """Return the error for a RecursionError: our code reaches that depth only for a document that is nested so deeply."""
    return MalformedError("the document is nested too deeply to be read", code="nested_too_deeply")


@contextlib.contextmanager
def host_errors() -> Iterator[None]:
    """Translate refusals of the operating system in the body to HostError, and deep nesting to MalformedError."""
    try:
        yield
    except RecursionError as error:
        raise too_deep() from error
    except (OSError, MemoryError) as error:
        found = host_error(error)
        if found is None:
            raise
        raise found from error


def is_waited_for(error: BaseException) -> bool:
    """Return whether ``error`` passes once there is space: then nothing has failed."""
    return isinstance(error, GatewrightError) and error.reason in WAITED_FOR


def speaks_of_full_disk(output: bytes) -> bool:
    """Return whether a failed program reports that a volume of this host is full."""
    lines = output.decode("utf-8", "replace").splitlines()
    return any(_FULL.search(line) and not _FOREIGN.match(line) for line in lines)


async def until_room(folder: Path) -> None:
    """Return when the volume of ``folder`` has space for work."""
    while True:
        try:
            return check_room(folder)
        except UnavailableError:
            await asyncio.sleep(_LOOK_AGAIN)


def check_room(folder: Path, least: int = LEAST_FREE) -> None:
    """Raise HostError (``disk_full``) unless the volume of ``folder``, or of its nearest existing parent, has space for
    work."""
    while True:
        try:
            volume = os.statvfs(folder)
            break
        except FileNotFoundError:
            folder = folder.parent
        except OSError as error:
            raise host_error(error) or UnavailableError(f"{folder}: {error.strerror or error}") from error
    free = volume.f_bavail * volume.f_frsize
    if free < least:
        raise HostError(f"{folder}: {free >> 20} MiB are free, work needs {least >> 20}; {_ROOM}", code=DISK_FULL)
    if volume.f_files and volume.f_favail < _LEAST_FILES:
        raise HostError(f"{folder}: the volume takes {volume.f_favail} more files; {_ROOM}", code=DISK_FULL)
