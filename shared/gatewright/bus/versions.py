"""Which version of Gatewright wrote a message, and what a reader of another version makes of what it cannot read.

While an installation is upgraded, or taken back, processes of two versions work side by side. A document that one of them
cannot read is not wrong for that: it is given back, for a process that can. One of the reader's own version is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from gatewright.bus.port import Message
from gatewright.errors import MalformedError, UnavailableError
from gatewright.version import __version__

#: Goes with every task, answer and entry of the ledger. Publishers send none: what they send is refused at once.
VERSION_HEADER: Final = "Gw-Version"
#: The reason of what is given back.
OTHER_VERSION: Final = "other_version"
#: Seconds after which a stored message of another version is put aside all the same: no process has come that reads it.
WAITED_FOR: Final = 3600.0

R = TypeVar("R")


def written_here() -> dict[str, str]:
    """The header by which a reader knows the version of this process."""
    return {VERSION_HEADER: __version__}


def read_version(message: Message, reader: Callable[[], R]) -> R:
    """What ``reader`` makes of ``message``.

    Raises UnavailableError (``other_version``) in the place of MalformedError when a process of another version wrote it.
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
