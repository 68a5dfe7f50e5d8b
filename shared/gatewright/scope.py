"""The rules of paths: valid paths of a contract, and the changes that they cover.

Pure, over repository paths (UTF-8 text in contracts, bytes in trees). A path covers itself and, as a directory, everything
below it, whole component by component: ``src`` covers ``src/a.py``, and neither ``src2`` nor ``SRC`` (specification 6.1). A
policy decides which paths are protected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatewright.errors import ScopeError
from gatewright.git import names
from gatewright.git.paths import display, path_fault

#: The word in an executor's command that stands for the contract's paths.
PATHS_WORD = "{paths}"

TOO_BROAD = "path_too_broad"
INVALID = "path_invalid"

#: Bytes of a path, and of one part of it (Linux: PATH_MAX, NAME_MAX).
MAX_PATH_BYTES = 4096
MAX_PART_BYTES = 255

_EVERYTHING = frozenset({"", ".", "./", "/", "~", "~/"})
_WILDCARDS = frozenset("*?[")


def check_path(text: str) -> str:
    """``text``, when it can name one file of a repository.

    Raises ScopeError (``path_invalid``): empty, absolute, ``.`` or ``..`` or empty parts, a trailing slash, a backslash,
    characters that cannot be seen, too long, or a part that some file system takes for ``.git``.
    """
    if not text:
        raise _invalid(text, "is empty")
    fault = names.unreadable(text)
    if fault is not None:
        raise _invalid(text, fault)
    path = text.encode("utf-8")
    if len(path) > MAX_PATH_BYTES or any(len(part) > MAX_PART_BYTES for part in path.split(b"/")):
        raise _invalid(text, "is too long")
    fault = path_fault(path)
    if fault is not None:
        raise _invalid(text, fault)
    return text


def check_allowed_path(text: str) -> str:
    """``text`` as a contract may allow it: an exact path or a directory prefix, a trailing slash taken off.

    Raises ScopeError: ``path_too_broad`` for what means the whole repository (empty, ``.``, ``/``, ``**``), ``path_invalid``
    for what ``check_path`` refuses, for wildcards, and for a path that begins with ``-`` or ``:``, which a command would
    not take for a path.
    """
    if text in _EVERYTHING or set(text) <= {"*", "/"}:
        raise ScopeError(f"{text!r} is the whole repository; name directories or files", code=TOO_BROAD)
    if not _WILDCARDS.isdisjoint(text):
        raise _invalid(text, "has a wildcard; exact paths and directories only")
    if text[0] in "-:":
        raise _invalid(text, f"begins with {text[0]!r}")
    return check_path(text.removesuffix("/"))


class AllowedPaths:
    """The paths of a contract, to be held against many: each costs its length, not the number of them."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.exact = frozenset(_encode_path(text) for text in allowed)
        self._lengths = sorted({len(path) for path in self.exact})

    def cover(self, path: bytes) -> bool:
        """Return whether one of them is ``path`` or a directory above it. A path that no tree may contain is never covered."""
        return path_fault(path) is None and self.holds(path)

    def holds(self, path: bytes) -> bool:
        """The same, without a look at what ``path`` is."""
        if path in self.exact:
            return True
        for length in self._lengths:
            if length >= len(path):
                return False
            if path[length : length + 1] == b"/" and path[:length] in self.exact:
                return True
        return False


def covers(allowed: Iterable[str], path: bytes) -> bool:
    """Return whether one of ``allowed`` is ``path`` or a directory above it; for many paths use ``AllowedPaths``."""
    return AllowedPaths(allowed).cover(path)


def outside(allowed: Iterable[str], paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the ``paths`` that ``allowed`` does not cover, in order; for many paths at once."""
    known = AllowedPaths(allowed)
    # Thousands of paths are in few directories: results per directory are cached.
    inside: dict[bytes, bool] = {b"": False}

    def is_outside(path: bytes) -> bool:
        directory = path.rpartition(b"/")[0]
        if directory not in inside:
            inside[directory] = known.holds(directory)
        return path_fault(path) is not None or not (inside[directory] or path in known.exact)

    return tuple(path for path in paths if is_outside(path))


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether a file could be below a path of ``some`` and a path of ``others``."""
    return not disjoint([list(some), list(others)])


def disjoint(groups: Sequence[Iterable[str]]) -> bool:
    """Return whether no file could be below paths of two different groups."""
    owner: dict[bytes, int] = {}
    for number, group in enumerate(groups):
        for text in group:
            if owner.setdefault(_encode_path(text), number) != number:
                return False
    # Sorted with separators lowest, paths below a path directly follow it: one look back suffices.
    above: list[tuple[bytes, int]] = []
    for path, number in sorted((path.replace(b"/", b"\0") + b"\0", number) for path, number in owner.items()):
        while above and not path.startswith(above[-1][0]):
            above.pop()
        if above and above[-1][1] != number:
            return False
        above.append((path, number))
    return True


def expand_paths(argv: Sequence[str], allowed: Iterable[str]) -> tuple[str, ...]:
    """Return ``argv`` with the contract's paths in place of every word that is exactly PATHS_WORD. Raises ScopeError.

    A path that a tool could interpret otherwise (``@file`` of options, ``NAME=value``, ``+toolchain``, ``~``) gets ``./``.
    """
    paths = [f"./{path}" if path[0] in "@+~" or "=" in path else path for path in map(check_allowed_path, allowed)]
    return tuple(word for given in argv for word in (paths if given == PATHS_WORD else [given]))


def takes_paths(command: str) -> bool:
    """Return whether PATHS_WORD is a word of the command line ``command``."""
    return PATHS_WORD in command.split()


def _encode_path(text: str) -> bytes:
    """An allowed path as the trees have it; what cannot be one (a lone surrogate) equals no path of a tree."""
    return text.removesuffix("/").encode("utf-8", "surrogatepass")


def _invalid(text: str, why: str) -> ScopeError:
    return ScopeError(f"{display(text.encode('utf-8', 'surrogatepass'))[:200]!r} {why}", code=INVALID)
