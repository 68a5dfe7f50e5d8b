"""The canonical header of a file as ``git diff`` writes it: nearly all files of nearly all patches, read in one step.

It only saves time on patches of thousands of files: ``headers.py`` reads every other form, and reads these headers with the
same result.
"""

from __future__ import annotations

import re
from typing import Final

from gatewright.git.modes import ENTRIES
from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.files import FilePatch
from gatewright.git.patches.hunks import read_hunks
from gatewright.git.patches.names import is_relative

_MODE: Final = "|".join(sorted(ENTRIES))
_IDS: Final = "index ([0-9a-f]{7,64})\\.\\.([0-9a-f]{7,64})"
#: Names of plain characters, without quotes or spaces: one reading each. A hunk follows.
_HEADER = re.compile(  # noqa: TID251 - linear: anchored and bounded; a name ends at the first space
    (
        "diff --git a/([!#-\\[\\]-~]{1,1024}) b/\\1\n"
        f"(?:{_IDS} ({_MODE})\n--- a/\\1\n\\+\\+\\+ b/\\1\n"
        f"|new file mode ({_MODE})\n{_IDS}\n--- /dev/null\n\\+\\+\\+ b/\\1\n"
        f"|deleted file mode ({_MODE})\n{_IDS}\n--- a/\\1\n\\+\\+\\+ /dev/null\n)(?=@@ -)"
    ).encode()
)
_LINES: Final = {True: 4, False: 5}


def read_canonical_file(cursor: Cursor, mail: int) -> FilePatch | None:
    """Return the file whose header begins at the cursor, and move the cursor behind its hunks; None for another form of
    header.

    Raises PatchError.
    """
    found = _HEADER.match(cursor.data, cursor.at)
    if found is None or not is_relative(found[1]):
        return None
    path, old, new, both, created, old_new, new_new, deleted, old_gone, new_gone = found.groups()
    line, start = cursor.number, cursor.at
    cursor.move(found.end(), line + _LINES[both is not None])
    return FilePatch(
        hunks=read_hunks(cursor, path),
        line=line,
        start=start,
        end=found.end(),
        mail=mail,
        old=None if created else path,
        new=None if deleted else path,
        old_mode=(both or deleted or b"").decode(),
        new_mode=(both or created or b"").decode(),
        old_id=old or old_new or old_gone,
        new_id=new or new_new or new_gone,
    )
