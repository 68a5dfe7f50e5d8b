"""The version that wrote a message, and the treatment of messages of another version that cannot be read.

During an upgrade or rollback, processes of two versions run side by side. A document that one of them cannot read may be
valid, so it is returned for a process that can. An unreadable document of the reader's own version is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from gatewright.bus.port import Message
from gatewright.errors import MalformedError, UnavailableError
from gatewright.version import __version__

#: Header of every task, answer and ledger entry. Publishers send none: an unreadable document of theirs is refused at once.
VERSION_HEADER: Final = "Gw-Version"
#: The reason of what is given back.
OTHER_VERSION: Final = "other_version"
#: Seconds after which an unreadable message of another version is set aside: no process arrived that reads it.
WAITED_FOR: Final = 3600.0

R = TypeVar("R")


def written_here() -> dict[str, str]:
    """The header by which a reader knows the version of this process."""
    return {VERSION_HEADER: __version__}


def read_version(message: Message, reader: Callable[[], R]) -> R:
    """Return the result of ``reader``.

    Raises UnavailableError (``other_version``) instead of MalformedError if a process of another version wrote it.
    """
    try:
        return reader()
    except MalformedError as error:
        writer = message.headers.get(VERSION_HEADER, "")[:40]
        if not writer or writer == __version__:
            raise
        raise UnavailableError(
            f"version {writer!a} wrote it, and {__version__} cannot read it: {error.message}", code=OTHER_VERSION
        ) from error
