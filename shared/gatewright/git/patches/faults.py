"""Why a patch cannot be read, and what its sender does about it.

No text of the patch is quoted but the names of its files: what a stranger wrote on a line may be a secret.
"""

from __future__ import annotations

from typing import Final

from gatewright.errors import PatchError
from gatewright.git.paths import display

MALFORMED: Final = "patch_malformed"
#: Bytes of a path that a message quotes.
_QUOTED = 120

REMAKE: Final = "Make the patch again with `git diff --binary`"
SEND_WHOLE: Final = "The end of the patch is missing: send the whole file"
SEND_UNALTERED: Final = "Send the file as git wrote it: an editor, a mail program or a shell has altered it"
WRITE_UNIFIED: Final = "Send a unified diff, as `git diff --binary` writes it"
USE_PREFIXES: Final = "Make the patch again with `git diff --binary --src-prefix=a/ --dst-prefix=b/`"
ONE_DIFF: Final = "Send one diff of the whole change: `git diff --binary BASE HEAD`"
REMOVE_TEXT: Final = "Remove the text that is not part of the patch"


def patch_fault(line: int, cause: str, advice: str, path: bytes | None = None) -> PatchError:
    """A patch that cannot be read: ``cause`` is about its ``line``, from 1, and about the file ``path`` where that is known."""
    return PatchError(f"line {line}: {cause}. {advice}.", code=MALFORMED, path=path)


def quote_path(path: bytes) -> str:
    """A path for a message."""
    return display(path if len(path) <= _QUOTED else path[:_QUOTED] + b"...")
