"""Errors of git about damaged or missing objects of a repository, translated to errors that people can act on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError

DAMAGED: Final = "repository_damaged"
PARTIAL: Final = "repository_partial"
#: git's messages in the C locale, which all our commands use.
_DAMAGES: Final = (
    *("is corrupt", "possible repository corruption", "inflate: data stream error", "unable to unpack", "unable to read"),
    *("bad ref ", "bad object", "bad tree object", "missing blob object", "missing tree object", "missing commit object"),
)
#: git's message about an object that a partial clone left at its remote.
_PROMISED: Final = "promisor"
#: Bytes of a list of stores that are looked at.
_LONGEST_LIST: Final = 1 << 16
_OBJECT = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")  # noqa: TID251 - linear: of a fixed length


def is_partial(error: CommandFailedError) -> bool:
    """Return whether git reports that a partial clone lacks an object."""
    return _PROMISED in error.output


def damage(error: CommandFailedError, repository: str, objects: Path | None = None) -> GitError | None:
    """Return the error to raise if ``error`` means that ``repository`` lacks an object; None if it means something else.

    ``objects`` is the repository's object store on this host; a store that it borrows from may be missing.
    """
    output = error.output
    found = _OBJECT.search(output)
    what = f"the object {found.group()}" if found is not None else "an object"
    if is_partial(error):
        return GitError(f"{repository} is a partial clone and lacks {what}", code=PARTIAL)
    return damage_error(repository, what, objects) if any(words in output for words in _DAMAGES) else None


def damage_error(repository: str, what: str, objects: Path | None = None) -> GitError:
    """The error of a repository that lacks ``what``."""
    gone = next(missing_stores(objects), None) if objects is not None else None
    why = f": objects/info/alternates borrows from {gone!a}, which is not there" if gone is not None else ""
    return GitError(f"{repository} is damaged: {what} is missing or cannot be read{why}", code=DAMAGED)


def missing_stores(objects: Path) -> Iterator[str]:
    """Yield the missing stores that ``objects`` borrows from; git ignores them silently."""
    try:
        handle = os.open(objects / "info" / "alternates", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        lines = file.read(_LONGEST_LIST).split(b"\n") if stat.S_ISREG(os.fstat(handle).st_mode) else []
    for line in lines:
        if line and not line.startswith((b"#", b'"')) and b"\0" not in line:
            store = os.path.realpath(objects / os.fsdecode(line))
            if not Path(store).is_dir():
                yield store
