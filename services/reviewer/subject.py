"""What is reviewed: the changed files of a candidate, old and new content side by side. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Scope
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display

#: git's own measure: a NUL this early makes a file binary.
_LOOKED_AT = 8000


@dataclass(frozen=True)
class ChangedFile:
    """One changed path. ``old`` and ``new`` are None where the path is absent, or no file (a submodule)."""

    change: TreeChange
    old: bytes | None
    new: bytes | None

    @property
    def path(self) -> bytes:
        return self.change.path

    @property
    def is_binary(self) -> bool:
        """Whether the new content is not text."""
        return b"\0" in (self.new or b"")[:_LOOKED_AT]

    @cached_property
    def added_lines(self) -> tuple[tuple[int, bytes], ...]:
        """Number and text of the new lines that the old content did not have as often; nothing for a binary file."""
        if self.new is None or self.is_binary:
            return ()
        return tuple(_added_lines((self.old or b"").split(b"\n"), self.new.split(b"\n")))

    def finding(self, code: str, message: str, *, blocking: bool, line: int | None = None) -> Finding:
        """An observation about this path."""
        return Finding(code=code, message=message, blocking=blocking, path=display(self.path), line=line)


@dataclass(frozen=True)
class Subject:
    """The candidate's changes, and the contract that ordered them."""

    contract: TaskContract
    files: tuple[ChangedFile, ...]
    max_file_bytes: int

    @property
    def opened(self) -> Scope:
        """What the contract allows beyond plain edits."""
        return self.contract.scope or Scope()

    def is_opened(self, path: bytes) -> bool:
        """Whether the contract names ``path`` among the protected paths that may be changed."""
        return self._opened_paths.cover(path)

    @cached_property
    def _opened_paths(self) -> scope.AllowedPaths:
        return scope.AllowedPaths(self.opened.allow_protected_paths)


def _added_lines(old: list[bytes], new: list[bytes]) -> Iterator[tuple[int, bytes]]:
    known = Counter(old)
    for number, line in enumerate(new, start=1):
        if known[line]:
            known[line] -= 1
        else:
            yield number, line
