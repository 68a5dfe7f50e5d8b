"""Creation of an empty mirror on this host."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Final

from gatewright.git.command import GitCommand

#: Folder of a mirror for Gatewright's own files.
PRIVATE: Final = "gate"
#: For the attribute file of highest priority. It overrides a tree's own .gitattributes: no conversion of line ends or
#: encodings, no filter, no keyword, no merge driver, and content decides whether a file is text or binary.
_ATTRIBUTES = (
    "* -text -eol -filter -ident -working-tree-encoding !diff !merge !whitespace !conflict-marker-size !export-subst\n"
)


def make_mirror(path: Path, object_format: str) -> None:
    """Make an empty mirror at ``path``, unless another process does so first. ``object_format`` is ``sha1`` or ``sha256``.

    Raises GitError, OSError.
    """
    fresh = path.parent / f"new-{uuid.uuid4().hex}"
    try:
        _initialise(fresh, object_format)
        fresh.rename(path)
    except OSError:
        # A directory cannot take the place of one that is not empty: another process was first.
        if not path.is_dir():
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _initialise(path: Path, object_format: str) -> None:
    git = GitCommand(path)
    git.execute("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", "--initial-branch=gate")
    (path / "info").mkdir(exist_ok=True)
    (path / "info" / "attributes").write_text(_ATTRIBUTES, encoding="ascii")
    (path / PRIVATE).mkdir()
    path.chmod(0o700)
