"""What git calls the kind of an entry of a tree: its mode, in octal digits. Named here once.

Differences and lists of files write six digits, and zeros where nothing is; a tree itself writes a directory's with five.
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
#: On the side of a difference where there is nothing.
ABSENT: Final = "000000"

#: The ids of an empty file, in repositories of either object format.
EMPTY_BLOBS: Final = frozenset(
    {"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}
)
#: Files with content of their own.
REGULAR: Final = frozenset({FILE, EXECUTABLE})
#: Everything that lies in a tree but its directories.
ENTRIES: Final = REGULAR | {SYMLINK, SUBMODULE}
#: No object of this repository stands behind them.
NO_CONTENT: Final = frozenset({ABSENT, SUBMODULE})


#: Octal digits of a mode. ``int`` would also take a sign, blanks and underscores, which git does not.
_MOST_DIGITS: Final = 6


@lru_cache(maxsize=64)
def canonical(written: bytes) -> str:
    """What git takes a mode in a tree object for (its ``canon_mode``): a padded ``040000`` is a directory, too.

    Raises ValueError for what is no octal number.
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
