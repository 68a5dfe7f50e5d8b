"""Objects of Git LFS in the store of a repository on this host (git-lfs, docs/spec.md). git-lfs is not needed.

The content is checked against the pointer while it is copied, so a link to another store exposes nothing unknown.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pathspec

from gatewright.errors import DeniedError
from gatewright.file_locks import FOLDER_FLAGS
from gatewright.git.host.local_repository import find_repository, local_setting

MISSING: Final = "lfs_object_missing"
_CHUNK: Final = 1 << 20
_MOST_PATTERNS: Final = 200
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of the store ``folder``, with the SHA-256 and the size in bytes of its pointer."""

    folder: Path
    oid: str
    size: int

    def is_there(self) -> bool:
        """Return whether the store has a file of that size for it."""
        file = self._open_object()
        if file is not None:
            os.close(file)
        return file is not None

    def copy_to(self, target: int) -> None:
        """Write the content to a descriptor. Raises DeniedError (``lfs_object_missing``) unless it fits the pointer."""
        file = self._open_object()
        if file is None:
            raise DeniedError(f"the object {self.oid} of Git LFS is not in {self.folder}; run: git lfs fetch", code=MISSING)
        digest, left = hashlib.sha256(), self.size
        try:
            while left > 0 and (chunk := os.read(file, min(left, _CHUNK))):
                digest.update(chunk)
                left -= len(chunk)
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(target, rest) :]
        finally:
            os.close(file)
        if left or digest.hexdigest() != self.oid:
            words = f"the object {self.oid} of Git LFS in {self.folder} is damaged; run: git lfs fsck, then git lfs fetch"
            raise DeniedError(words, code=MISSING)

    def _open_object(self) -> int | None:
        """Return a descriptor of the file; None if there is none of that size. No link below the store is followed."""
        opened: list[int] = []
        try:
            opened.append(os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in ("objects", self.oid[:2], self.oid[2:4]):
                opened.append(os.open(part, FOLDER_FLAGS, dir_fd=opened[-1]))
            file = os.open(self.oid, _FILE_FLAGS, dir_fd=opened[-1])
        except OSError:
            return None
        finally:
            for folder in opened:
                os.close(folder)
        status = os.fstat(file)
        if stat.S_ISREG(status.st_mode) and status.st_size == self.size:
            return file
        os.close(file)
        return None


def find_store(address: str) -> Path:
    """Return the folder of the store of the repository at ``address``. Raises GitError."""
    return find_repository(address).common / (local_setting(address, "lfs.storage") or "lfs")


def excluded_paths(settings: Iterable[str], paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return the ``paths`` that values of ``lfs.fetchexclude`` cover: patterns as in a gitignore, separated by commas.

    Raises DeniedError (``lfs_object_missing``) for a pattern that is none.
    """
    patterns = [each.strip() for value in settings for each in value.split(",") if each.strip()][:_MOST_PATTERNS]
    try:
        # The default engine backtracks, and the repository may choose the patterns.
        spec = pathspec.GitIgnoreSpec.from_lines(patterns, backend="re2")
    except ValueError as error:
        raise DeniedError(f"lfs.fetchexclude cannot be read: {str(error)[:200]!a}; correct it", code=MISSING) from error
    return frozenset(path for path in paths if spec.match_file(path.decode("utf-8", "replace")))
