"""Path rules of git trees: which names git must never hold, and how a path of bytes is shown to people.

Pure functions over bytes. Policy (scope, protected paths, traversal out of a contract) is not decided here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from gatewright.git.modes import SYMLINK

#: Code points that HFS+ drops when it compares names (git's ``next_hfs_char``).
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
#: ``.git`` as NTFS understands it: short name, trailing dots and spaces, alternate streams (git's ``is_ntfs_dotgit``).
_DOT_GIT = re.compile(r"(?:\.git|git~1)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_DOT_GITMODULES = re.compile(r"(?:\.gitmodules|gitmod~[1-4]|gi7eba~[0-9]+)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_DOT_GITATTRIBUTES = re.compile(r"(?:\.gitattributes|gitatt~[1-4]|gi7d29~[0-9]+)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_TRIMMED = re.compile(rb"[. ]/")  # noqa: TID251 - linear: of a fixed length
#: Bytes without which no name is absolute, odd, or taken for one of git's: ``gi`` is in all of them, and in ``gi7eba~1``.
_SUSPECT = re.compile(rb"//|/\.\.?/|[gG][iI]|[^\x20-\x7e]|\\")  # noqa: TID251 - linear: of a fixed length
#: Bytes of a name. No file system holds a longer one, so none takes two of them for one; and putting a long run of combining
#: marks in order takes the square of its length.
_LONGEST_NAME = 1024


def is_git_path(component: bytes) -> bool:
    """True when some file system takes this one path component for ``.git`` (CVE-2014-9390, CVE-2019-1352)."""
    return _is_like(component, _DOT_GIT)


def is_gitattributes(component: bytes) -> bool:
    """True when some file system takes this one path component for ``.gitattributes``."""
    return _is_like(component, _DOT_GITATTRIBUTES)


def is_gitmodules(component: bytes) -> bool:
    """True when some file system takes this one path component for ``.gitmodules``."""
    return _is_like(component, _DOT_GITMODULES)


def folded_path(path: bytes) -> str:
    """``path`` with ``fold_component`` applied to each component."""
    if path.isascii() and _TRIMMED.search(path + b"/") is None:
        return path.decode("ascii").lower()
    return "/".join(map(fold_component, path.split(b"/")))


def fold_component(component: bytes) -> str:
    """Return a path component as a file system sees it that ignores case, normalises, or drops invisible characters.

    Two components of one directory with the same result may be one file somewhere: compatibility caseless matching
    (Unicode, D146), without what HFS+ ignores and without the trailing dots and spaces that Windows removes.
    """
    if component.isascii():
        return component.decode("ascii").lower().rstrip(". ") or component.decode("ascii")
    name = component.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED)
    if len(component) > _LONGEST_NAME:
        return name.casefold()
    for _ in range(2):
        name = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", name).casefold())
    return name.rstrip(". ") or name


def path_fault(path: bytes, mode: str | None = None) -> str | None:
    """Return why a tree cannot hold ``path``, or None.

    The rule is git's own ``verify_path`` with the NTFS and HFS protections on; ``mode`` is the git mode if known (a
    symbolic link named ``.gitmodules`` is refused, CVE-2018-11235).
    """
    if b"\0" in path:
        return "holds a NUL byte"
    if _is_plain(path):
        return None
    for component in path.split(b"/"):
        if component in {b"", b".", b".."}:
            return "is absolute, or has an empty, '.' or '..' part"
        if is_git_path(component):
            return "is inside a git directory"
    if mode == SYMLINK and _is_like(path.rpartition(b"/")[2], _DOT_GITMODULES):
        return "is a symbolic link in the place of .gitmodules"
    return None


def display(path: bytes) -> str:
    r"""``path`` for messages and JSON: readable, one line, and different for different bytes.

    Printable UTF-8 stays; a backslash is doubled; everything else becomes ``\xNN``, ``\uNNNN`` or the like.
    """
    text = path.replace(b"\\", rb"\\").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _is_plain(path: bytes) -> bool:
    """Return whether ``path`` is certainly valid: the result for nearly every path, at little cost."""
    return _SUSPECT.search(b"/" + path + b"/") is None


def _is_like(component: bytes, pattern: re.Pattern[str]) -> bool:
    if component.isascii() and b"gi" not in component.lower():
        return False
    name = component.decode("utf-8", "replace").translate(_HFS_IGNORED)
    return any(pattern.fullmatch(piece) for piece in name.split("\\"))


def folders_above(path: bytes) -> Iterator[bytes]:
    """Yield every folder that ``path`` lies in, the outermost first."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)
