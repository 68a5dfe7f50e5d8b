"""Detects words that would disable an agent's sandbox. They are always refused (specification 6.1); no approval permits them.

The permission values themselves cannot express this, because the schema has no such value. Only words of a program's command
line or configuration can.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial

#: Known spellings, compared without case, quotes, separators and white space: Codex's sandbox mode and flags, Claude Code's
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
    """Return whether ``words`` (a command, a flag, a value) request no sandbox or no approvals."""
    # Character by character: sorting a long run of combining marks takes quadratic time.
    plain = words if words.isascii() else "".join(map(_COMPATIBLE, words))
    plain = plain.casefold()
    letters = _NOT_LETTERS.sub("", plain)
    return any(name in letters for name in _NAMES) or _FLAGS.search(plain) is not None
