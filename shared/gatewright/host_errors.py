"""What the operating system says when this host fails, in the words of this package: a stable code, and what to do about it.

An error of the operating system that stands in the table below says something about the host; any other one (a file that is not
there) says something about the program, and is left as it is.
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

#: Reasons (``error.reason``): there is no room on a disk of this host, or in the store of the bus.
DISK_FULL: Final = "disk_full"
BUS_FULL: Final = "bus_storage_full"
#: As many calls to the host of a repository are under way as there may be.
REPOSITORY_HOST_BUSY: Final = "repository_host_busy"
#: What passes once there is room again: work that meets it waits, however long that takes, and has not failed.
WAITED_FOR: Final = frozenset({DISK_FULL, BUS_FULL, REPOSITORY_HOST_BUSY})

#: Bytes that work of any kind leaves free on a volume. A NATS server that finds none writes nothing more until it is restarted.
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
#: What programs in the C locale say of a full volume. A line that comes from another host speaks of that host's.
_FULL = re.compile(r"No space left on device|Disk quota exceeded")  # noqa: TID251 - linear: of a fixed length
_FOREIGN = re.compile(r"\s*remote:")  # noqa: TID251 - linear: anchored at the line's beginning


def host_error(error: BaseException) -> HostError | None:
    """``error`` as what it says about this host; None when it says nothing about it."""
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(error, OSError) or error.errno not in _CODES:
        return None
    code = _CODES[error.errno]
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | Path) else ""
    return HostError(f"{place}{os.strerror(error.errno)}; {REASONS[code].advice}", code=code)


def too_deep() -> MalformedError:
    """What a RecursionError says: nothing of ours calls itself so often but for a document that is nested so deeply."""
    return MalformedError("the document is nested too deeply to be read", code="nested_too_deeply")


@contextlib.contextmanager
def host_errors() -> Iterator[None]:
    """What the operating system refuses in the body leaves it as HostError, what is nested too deeply as MalformedError."""
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
    """Whether ``error`` passes once there is room: then nothing has failed."""
    return isinstance(error, GatewrightError) and error.reason in WAITED_FOR


def speaks_of_full_disk(output: bytes) -> bool:
    """Whether a program that failed says that a volume of this host is full."""
    lines = output.decode("utf-8", "replace").splitlines()
    return any(_FULL.search(line) and not _FOREIGN.match(line) for line in lines)


async def until_room(folder: Path) -> None:
    """Return when the volume of ``folder`` has room for work."""
    while True:
        try:
            return check_room(folder)
        except UnavailableError:
            await asyncio.sleep(_LOOK_AGAIN)


def check_room(folder: Path, least: int = LEAST_FREE) -> None:
    """Raise HostError (``disk_full``) unless the volume of ``folder``, or of the nearest folder above it, has room for work."""
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
