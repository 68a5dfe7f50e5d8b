"""Maintenance of mirrors in use: pack objects, release old commits, remove files of killed processes.

One process at a time maintains a mirror, and none waits for it. git's own rules protect what is being read or written
meanwhile, and the fetch lock is held only while refs are dropped. It may be killed at any time; the next run continues. It
never removes an object that a ref reaches, or that was written or reached within the last ``EXPIRY``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from gatewright.errors import GitError
from gatewright.file_locks import lock_file
from gatewright.git.command import GitCommand, executable
from gatewright.git.mirror_room import used


# Exclusion between the processes of one host that share a directory of mirrors. Nothing is excluded between hosts.
@contextlib.contextmanager
def hold_lock(path: Path, *, seconds: float) -> Iterator[int]:
    """Hold the lock file ``path`` (created on demand), waiting at most ``seconds`` for it; blocks the thread.

    Yields the descriptor: a process that inherits it keeps the lock alive when this one dies, so that none cleans up under a
    git that is still writing. GitError (``mirror_busy``) when the wait is over.
    """
    try:
        descriptor = lock_file(path, seconds=seconds)
    except BlockingIOError as error:
        raise GitError(f"another process holds {path.name}", code="mirror_busy") from error
    except OSError as error:
        raise GitError(f"the lock {path.name} cannot be opened: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


#: How long unreachable objects stay: longer than any run is open whose repository dropped its baseline.
EXPIRY = "28.days.ago"
#: Seconds after which a partly written file is assumed to be abandoned.
_LEFT_BEHIND = 86_400.0
#: Seconds that one step may take; it runs at the lowest priority.
_LONGEST = 3600.0
#: Seconds to wait for the fetch lock; otherwise refs are dropped another time.
_PATIENCE = 1.0
#: git packs at most 50,000 loose objects at a time.
_MOST_ROUNDS = 20
_KEEP = Path("refs/gate/keep")
#: A file in each folder of loose objects that keeps the folder: git removes an empty one, and another git that just created
#: it to write there fails. It is named like git's own unfinished files, which all git commands ignore while they are new.
_STAYS = "tmp_obj_stays"
#: Files that a killed git leaves below the mirror. Pack folders are small, so a check costs one listing.
_TEMPORARY = (
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/tmp_*",
    "objects/??/tmp_obj_*",
    "gate/use-*",
    "fast_import_crash_*",
)


@dataclass(frozen=True, slots=True)
class MaintenanceThresholds:
    """Thresholds of each step. ``loose``: objects outside packs; ``packs``: their number; ``kept``: commits that refs hold.

    With more than twice ``kept`` commits, those unused for ``unused`` seconds are released, the longest unused first.
    """

    loose: int = 2_000
    packs: int = 20
    kept: int = 64
    unused: float = 3600.0


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The result of one maintenance run; ``dropped`` is the number of commits that no ref holds any more."""

    packed: bool = False
    repacked: bool = False
    dropped: int = 0


NOTHING = MaintenanceResult()


def mirrors_below(root: Path) -> tuple[Path, ...]:
    """The mirrors of ``root``; what killed processes began there long ago is removed."""
    if not root.is_dir():
        return ()
    _remove_older(root.glob("new-*"))
    return tuple(sorted(root.glob("*.git")))


def tend(path: Path, limits: MaintenanceThresholds, needed: Collection[str] = ()) -> MaintenanceResult:
    """Run maintenance once on the mirror ``path``. Raises GitError.

    1. Remove files of killed processes. 2. Pack loose objects. 3. Drop the refs of long unused commits, after marking packs
    as new, so that the objects stay for ``EXPIRY``. 4. Combine many packs into one, and unreachable objects into another,
    without those older than ``EXPIRY``.
    """
    try:
        with used(path), hold_lock(path / "gate" / "maintenance", seconds=0) as lock:
            return _tend(path, limits, needed, lock)
    except GitError as error:
        if error.reason == "mirror_busy":
            return NOTHING  # another process looks after it
        raise


def _tend(path: Path, limits: MaintenanceThresholds, needed: Collection[str], lock: int) -> MaintenanceResult:
    git = GitCommand(path)

    def run(*words: str) -> None:
        # A child keeps the lock if this process dies, so that no file is removed while it still writes.
        settings = ("-c", "pack.threads=1", "-c", "repack.writeBitmaps=false")
        git.execute(*settings, *words, timeout=_LONGEST, pass_fds=(lock,), confinement=(executable("nice"), "-n", "19"))

    _remove_leavings(path)  # 1
    unused = _unused_commits(path, limits, needed)
    pack = bool(unused) or _loose(path) >= limits.loose
    if pack:  # 2
        _pack_loose(path, run)
    dropped = _drop(path, git, unused) if unused else 0  # 3
    repack = sum(1 for _ in (path / "objects" / "pack").glob("*.pack")) > limits.packs
    if repack:  # 4
        _hold_folders(path)
        run("repack", "-d", "-q", "-n", "--cruft", f"--cruft-expiration={EXPIRY}")
        run("prune", f"--expire={EXPIRY}")
    return MaintenanceResult(pack, repack, dropped)


def _pack_loose(path: Path, run: Callable[..., None]) -> None:
    """Pack all loose objects, reachable or not, and remove those that are already in packs."""
    _hold_folders(path)
    for _ in range(_MOST_ROUNDS):
        run("maintenance", "run", "--quiet", "--task=loose-objects")
        run("prune-packed", "--quiet")
        if not _loose(path):
            return


def _folders(path: Path) -> Iterator[Path]:
    return (path / "objects" / f"{number:02x}" for number in range(256))


def _hold_folders(path: Path) -> None:
    for folder in _folders(path):
        folder.mkdir(exist_ok=True)
        (folder / _STAYS).touch()


def _loose(path: Path) -> int:
    """Return the number of objects outside packs."""
    names = (name for folder in _folders(path) if folder.is_dir() for name in os.listdir(folder))  # noqa: PTH208 - no paths are wanted
    return sum(name != _STAYS for name in names)


def _unused_commits(path: Path, limits: MaintenanceThresholds, needed: Collection[str]) -> tuple[str, ...]:
    """The commits to let go."""
    kept: list[tuple[float, str]] = []
    with contextlib.suppress(FileNotFoundError), os.scandir(path / _KEEP) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                kept.append((entry.stat().st_mtime, entry.name))
    if len(kept) <= 2 * limits.kept:
        return ()
    limit = time.time() - limits.unused
    older = sorted(kept)[: len(kept) - limits.kept]
    return tuple(name for used, name in older if used <= limit and name not in needed and not name.endswith(".lock"))


def _drop(path: Path, git: GitCommand, names: tuple[str, ...]) -> int:
    """Drop the refs that keep ``names``, while nothing is fetched."""
    for pack in (path / "objects" / "pack").glob("*.pack"):
        with contextlib.suppress(FileNotFoundError):
            os.utime(pack)
    try:
        with hold_lock(path / "gate" / "lock", seconds=_PATIENCE) as lock:
            # This process holds both locks: no git of an earlier holder is alive, and its leftovers are unused.
            (path / "packed-refs.lock").unlink(missing_ok=True)
            commands = "".join(f"delete {_KEEP}/{name}\n" for name in names)
            git.execute("update-ref", "--no-deref", "--stdin", stdin=commands.encode(), pass_fds=(lock,))
    except GitError as error:
        if error.reason == "mirror_busy":
            return 0
        raise
    return len(names)


def _remove_leavings(path: Path) -> None:
    # Only a git that inherited our own lock can hold this one.
    (path / "objects" / "maintenance.lock").unlink(missing_ok=True)
    _remove_older(found for pattern in _TEMPORARY for found in path.glob(pattern))


def _remove_older(paths: Iterator[Path]) -> None:
    limit = time.time() - _LEFT_BEHIND
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime >= limit:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
