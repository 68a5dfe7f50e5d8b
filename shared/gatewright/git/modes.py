"""git's modes of tree entries, in octal digits.

Differences and lists of files write six digits, and zeros for absent files; a tree itself writes a directory's with five.
"""

from __future__ import annotations

import stat
from functools import lru_cache
from typing import Final

FILE: Final = "100644"
EXECUTABLE: Final = "100755"
SYMLINK: Final = "120000"
#: A commit of another repository (a gitlink).
SUBMODULE: Final = "160000"
DIRECTORY: Final = "40000"
#: The absent side of a difference.
ABSENT: Final = "000000"

#: The ids of an empty file, in repositories of either object format.
EMPTY_BLOBS: Final = frozenset(
    {"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}
)
#: Files with content.
REGULAR: Final = frozenset({FILE, EXECUTABLE})
#: All entries of a tree except directories.
ENTRIES: Final = REGULAR | {SYMLINK, SUBMODULE}
#: Entries without an object in this repository.
NO_CONTENT: Final = frozenset({ABSENT, SUBMODULE})


#: Octal digits of a mode. ``int`` would also take a sign, blanks and underscores, which git does not.
_MOST_DIGITS: Final = 6


@lru_cache(maxsize=64)
def canonical(written: bytes) -> str:
    """Return git's interpretation of a mode in a tree object (its ``canon_mode``): a padded ``040000`` is also a directory.

    Raises ValueError for an invalid octal number.
    """
    if not written or written.strip(b"01234567") or len(written.lstrip(b"0")) > _MOST_DIGITS:
        raise ValueError(f"{written[:40]!r} is no mode")
    mode = int(written, 8)
    match stat.S_IFMT(mode):
        case stat.S_IFREG:
            return EXECUTABLE if mode & stat.S_IXUSR else FILE
        case stat.S_IFLNK:
            return SYMLINK
        case stat.S_IFDIR:
            return DIRECTORY
        case _:
            return SUBMODULE
