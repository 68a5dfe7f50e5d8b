"""Writes the files of a git tree into a directory, byte for byte as the objects hold them.

No git runs here, so no filter, no line-end conversion and no hook can. The tree is hostile: a path that a tree must never hold
is refused, every folder is entered without following links, and no name is written twice (a link and a folder of the same name
are how a checkout is made to write elsewhere, CVE-2024-32002).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gatewright.errors import DeniedError
from gatewright.file_locks import FOLDER_FLAGS
from gatewright.git.linked.lfs import StoredObject
from gatewright.git.modes import EXECUTABLE, SUBMODULE, SYMLINK
from gatewright.git.paths import display, path_fault
from gatewright.sandbox.account import SandboxAccount

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeWriter:
    """Writes below the existing directory ``root``. New files belong to ``account``; sorted paths are written fastest."""

    def __init__(self, root: Path, account: SandboxAccount) -> None:
        self._account = account
        # The folders of the path that was written last, and their descriptors: root first.
        self._open = [os.open(root, FOLDER_FLAGS)]
        self._names: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._leave_folders(0)
        os.close(self._open.pop())

    def write(self, path: bytes, mode: str, content: bytes | StoredObject) -> None:
        """Make the file, link or (for a submodule) empty folder ``path``.

        Raises DeniedError: ``unsafe_path``, ``lfs_object_missing``.
        """
        folder, name = self._enter(path, mode)
        try:
            if mode == SUBMODULE:
                self._make_folder(folder, name)
            elif mode == SYMLINK and isinstance(content, bytes):
                os.symlink(content, name, dir_fd=folder)
                if self._account.switched:
                    os.chown(name, self._account.uid, self._account.gid, dir_fd=folder, follow_symlinks=False)
            else:
                self._write_file(folder, name, 0o755 if mode == EXECUTABLE else 0o644, content)
        except FileExistsError as error:
            raise DeniedError(f"the tree holds {display(path)} twice", code="unsafe_path") from error

    def whiteout(self, path: bytes) -> None:
        """Make the mark that hides ``path`` of the layers below, unless it is hidden already."""
        folder, name = self._enter(path, SYMLINK)
        try:
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)
        except FileExistsError:
            return
        if self._account.switched:
            os.chown(name, self._account.uid, self._account.gid, dir_fd=folder, follow_symlinks=False)

    def forget(self) -> None:
        """Let go of folders that were entered: another process is about to remove one."""
        self._leave_folders(0)

    def _write_file(self, folder: int, name: bytes, mode: int, content: bytes | StoredObject) -> None:
        file = os.open(name, _NEW_FILE, mode, dir_fd=folder)
        try:
            _set_mode(file, mode)
            if self._account.switched:
                os.fchown(file, self._account.uid, self._account.gid)
            if not isinstance(content, bytes):
                content.copy_to(file)
                return
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)

    def _make_folder(self, folder: int, name: bytes) -> None:
        os.mkdir(name, 0o755, dir_fd=folder)
        made = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        try:
            _set_mode(made, 0o755)
            if self._account.switched:
                os.fchown(made, self._account.uid, self._account.gid)
        finally:
            os.close(made)

    def _enter(self, path: bytes, mode: str) -> tuple[int, bytes]:
        """The folder of ``path``, made on the way, and its name there."""
        if fault := path_fault(path, mode):
            raise DeniedError(f"the tree holds a path that is not safe: {display(path)} {fault}", code="unsafe_path")
        *parents, name = path.split(b"/")
        shared = 0
        while shared < min(len(parents), len(self._names)) and parents[shared] == self._names[shared]:
            shared += 1
        self._leave_folders(shared)
        for parent in parents[shared:]:
            self._open.append(self._enter_one(self._open[-1], parent, path))
            self._names.append(parent)
        return self._open[-1], name

    def _enter_one(self, folder: int, name: bytes, path: bytes) -> int:
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            self._make_folder(folder, name)
            return os.open(name, FOLDER_FLAGS, dir_fd=folder)
        except OSError as error:
            raise DeniedError(f"the tree holds a file above {display(path)}", code="unsafe_path") from error

    def _leave_folders(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._open.pop())


def _set_mode(file: int, mode: int) -> None:
    """Set the mode regardless of the umask. Checking costs less than setting the same mode again."""
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        os.fchmod(file, mode)
