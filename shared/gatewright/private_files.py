"""Files in a home that decide what processes of this host may do: read only if no other account could have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from gatewright.errors import ConfigurationError

_MOST_BYTES: Final = 16 << 20


def read_private(path: Path) -> bytes | None:
    """The content of a plain file of this user that no other user may read or write; None where there is no file.

    Raises ConfigurationError for any other file: a link, one of another user, one with wider permissions.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise ConfigurationError(f"{path} is not a private file of yours; look at it and remove it")
        return file.read(_MOST_BYTES)


def write_private(path: Path, content: bytes) -> None:
    """Replace the file: a reader sees the old content or the new one. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
