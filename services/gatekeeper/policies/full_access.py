"""Tells whether words would switch an agent's sandbox off. Always refused (specification 6.1); no approval opens it.

The values of the permissions themselves cannot say so, the schema has no such value. What is left are words for a program's
command line or configuration.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial

#: The known spellings, compared without case, quotes, separators and white space: Codex's sandbox mode and flags, Claude Code's
#: permission mode and flags, and the common short forms.
_NAMES = (
    "dangerfullaccess",
    "dangerouslybypass",
    "dangerouslyskip",
    "dangerouslydisable",
    "bypasspermissions",
    "bypassapprovals",
    "skippermissions",
)
_FLAGS = re.compile(r"(?:^|\s)--(?:yolo|full-auto|no-sandbox)(?:$|[\s=])")  # noqa: TID251 - linear: of a fixed length
_COMPATIBLE = partial(unicodedata.normalize, "NFKC")
_NOT_LETTERS = re.compile(r"[^a-z0-9]")  # noqa: TID251 - linear: single characters


def names_full_access(words: str) -> bool:
    """Whether ``words`` (a command, a flag, a value) ask for no sandbox or no approvals."""
    # Character by character: putting a long run of combining marks in order takes the square of its length.
    plain = words if words.isascii() else "".join(map(_COMPATIBLE, words))
    plain = plain.casefold()
    letters = _NOT_LETTERS.sub("", plain)
    return any(name in letters for name in _NAMES) or _FLAGS.search(plain) is not None
