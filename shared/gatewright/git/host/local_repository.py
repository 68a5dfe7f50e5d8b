"""A repository in a folder of this host: the folders it consists of, and its consent to be there.

git follows pointers (``.git`` as a file, ``commondir``), so a folder that an attacker filled could claim another user's
repository as its own. Here a pointer is valid only if its target points back. ``gatewright.git.host.planted_links`` checks
the contents of the folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError, GitCommand

LEADS_ELSEWHERE = "repository_leads_elsewhere"
_UNREADABLE = "repository_unreadable"
#: Bytes of the small files that point somewhere.
_LONGEST_POINTER = 8192
#: Bytes of a configuration that is looked through here; a longer one is left to git.
_LONGEST_CONFIG = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """A repository's folders as real paths, without links. ``git_dir`` has the ``HEAD``; ``common`` the objects and branches.

    They differ in a linked worktree only.
    """

    git_dir: Path
    common: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.common,) if self.git_dir == self.common else (self.common, self.git_dir)

    def may_configure(self, section: str) -> bool:
        """Return whether its configuration could have a section of that name; git then decides.

        Returns False only if each file was read completely and contains neither the name nor an inclusion; a section's name
        is written literally, in any case.
        """
        files = [folder / name for folder in self.folders for name in ("config", "config.worktree")]
        return any(_may_name(file, section.encode().lower()) for file in files)

    @contextmanager
    def held(self) -> Iterator[tuple[Path, ...]]:
        """Yield names of its folders that stay valid even if a folder is moved or replaced by a link.

        Raises GitError (``repository_leads_elsewhere``) if another folder is already at its path.
        """
        with ExitStack() as stack:
            handles = [os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) for folder in self.folders]
            for handle in handles:
                stack.callback(os.close, handle)
            names = tuple(Path(f"/proc/self/fd/{handle}") for handle in handles)
            for name, folder in zip(names, self.folders, strict=True):
                if name.readlink() != folder:
                    raise _elsewhere(f"{folder} was replaced while it was looked at", "try again")
            yield names


def find_repository(address: str) -> LocalRepository:
    """The repository that git finds at ``address``, an absolute path (git's ``enter_repo``, in the same order).

    GitError: ``repository_unreadable`` for none, ``repository_leads_elsewhere`` for one that is not agreed upon.
    """
    try:
        for ending in ("", ".git"):
            place = Path(os.path.realpath(f"{address}{ending}"))
            git_dir = _git_dir(place)
            if git_dir is not None:
                return _complete(git_dir)
    except (OSError, ValueError) as error:
        raise GitError(f"the repository cannot be read: {error}", code=_UNREADABLE) from error
    raise GitError(f"the repository cannot be read: there is none at {address}", code=_UNREADABLE)


def _git_dir(place: Path) -> Path | None:
    inner = place / ".git"
    match _kind(inner):
        case stat.S_IFDIR if _kind(inner / "HEAD"):
            return inner
        case stat.S_IFREG | stat.S_IFLNK:
            return _confirmed_pointer(inner)
    if _kind(place) == stat.S_IFREG:
        return _confirmed_pointer(place)
    return place if _kind(place / "HEAD") and (_kind(place / "objects") or _kind(place / "commondir")) else None


def _confirmed_pointer(pointer: Path) -> Path:
    """Return the target of the ``.git`` of a linked worktree, submodule or separate git folder, if the target points back."""
    if pointer.is_symlink():
        git_dir = Path(os.path.realpath(pointer))
    else:
        content = _read_pointer(pointer)
        if not content.startswith("gitdir: "):
            raise GitError(f"the repository cannot be read: {pointer} is no pointer to a git folder", code=_UNREADABLE)
        git_dir = Path(os.path.realpath(pointer.parent / content.removeprefix("gitdir: ")))
    if _kind(git_dir / "gitdir") == stat.S_IFREG:
        back = Path(os.path.realpath(git_dir / _read_pointer(git_dir / "gitdir")))
    else:
        back = Path(os.path.realpath(git_dir / (_configured(git_dir, "core.worktree") or "nowhere"))) / ".git"
    if back != pointer:
        raise _elsewhere(
            f"{pointer} leads to {git_dir}, which does not know of it",
            "name that folder itself, have git repair it (git worktree repair), or set there which folder it belongs to "
            f"(git --git-dir={git_dir} config core.worktree {pointer.parent})",
        )
    return git_dir


def local_setting(address: str, key: str) -> str:
    """Return the value of ``key`` in the configuration of the repository itself; empty for none. Raises GitError."""
    return _configured(find_repository(address).common, key)


def _configured(git_dir: Path, key: str) -> str:
    config = git_dir / "config"
    if _kind(config) != stat.S_IFREG:
        return ""
    try:
        output = GitCommand(git_dir).execute("config", "--file", str(config), "--no-includes", "--get", key)
    except CommandFailedError:
        return ""
    return output.decode("utf-8", "surrogateescape").removesuffix("\n")


def _complete(git_dir: Path) -> LocalRepository:
    """Return the repository with its common folder. ``commondir`` is valid only in git's own folder for linked worktrees."""
    # git would search for a repository inside the configured one.
    if _kind(git_dir / ".git"):
        raise _elsewhere(f"{git_dir} holds another .git", "remove it")
    match _kind(git_dir / "commondir"):
        case 0:
            return LocalRepository(git_dir, git_dir)
        case stat.S_IFREG:
            common = Path(os.path.realpath(git_dir / _read_pointer(git_dir / "commondir")))
            if git_dir.parent == common / "worktrees" and not _kind(common / "commondir") and not _kind(common / ".git"):
                return LocalRepository(git_dir, common)
    raise _elsewhere(f"{git_dir / 'commondir'} leads out of the repository", "remove it, or name the repository itself")


def _read_pointer(pointer: Path) -> str:
    """The first line of a small regular file."""
    handle = os.open(pointer, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        return os.fsdecode(file.read(_LONGEST_POINTER).split(b"\n")[0])


def _may_name(config: Path, section: bytes) -> bool:
    try:
        handle = os.open(config, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return True
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        content = file.read(_LONGEST_CONFIG).lower()
    return len(content) == _LONGEST_CONFIG or section in content or b"include" in content


def _kind(path: Path) -> int:
    """The kind of file that ``path`` is, itself and not what it leads to; 0 for none."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _elsewhere(fault: str, advice: str) -> GitError:
    return GitError(f"{fault}; {advice}", code=LEADS_ELSEWHERE)
