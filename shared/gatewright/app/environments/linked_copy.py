"""A second environment with the packages of one that is there: the same files by hard links, and its own place in its scripts.

So a project's new version costs no installation and hardly any room. Nothing of a package is run, and no link is followed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: Scripts and settings that name their environment are small.
_MOST_BYTES = 1024 * 1024


def link_environment(base: Path, prefix: Path) -> None:
    """Fill the empty folder ``prefix`` with what ``base`` holds. Blocks. Raises OSError."""
    own, other = os.fsencode(base), os.fsencode(prefix)
    for folder, names, files in os.walk(base):
        inside = Path(folder).relative_to(base)
        for name in (*names, *files):
            source, target = base / inside / name, prefix / inside / name
            if source.is_symlink():
                target.symlink_to(os.fsdecode(os.fsencode(source.readlink()).replace(own, other)))
            elif source.is_dir():
                target.mkdir(mode=0o755)
                target.chmod(0o755)
            elif not _write_moved(source, target, own, other, packaged=inside.parts[:1] == ("lib",)):
                _link(source, target)


def _write_moved(source: Path, target: Path, own: bytes, other: bytes, *, packaged: bool) -> bool:
    """Whether ``source`` names its environment and was written with the other one's place; nothing in a package does."""
    if packaged or source.stat().st_size > _MOST_BYTES:
        return False
    content = source.read_bytes()
    if own not in content:
        return False
    target.write_bytes(content.replace(own, other))
    shutil.copymode(source, target)
    return True


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        # A file system without hard links, or too many of one file.
        shutil.copy2(source, target, follow_symlinks=False)
