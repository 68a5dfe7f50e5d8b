"""What merging a branch would make of another one, computed beside the repository: nothing is written to it.

git works in a bare repository of our own, which borrows the objects. It has no configuration and no attributes, so no merge
driver of the repository's owner is started.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError
from gatewright.git.host.staged import borrow_objects, common_directory, make_bare
from gatewright.git.objects import Objects

CONFLICTS: Final = "branch_conflicts"
#: The exit status of git for options that it does not know.
_USAGE: Final = 129
#: Conflicting files that an error names.
_MOST_NAMED: Final = 5
#: The most bytes that git may say about conflicts.
_LIMIT: Final = 16 << 20


def merge_change(start: Path, target: str, head: str) -> bytes | None:
    """The patch from ``target`` to its merge with ``head`` (two commit ids); empty when ``target`` has all of ``head``.

    None where git is older than 2.38: it cannot merge without a work tree.

    Raises GitError (``branch_conflicts``, with the files), and PatchError (``patch_too_large``).
    """
    with tempfile.TemporaryDirectory(prefix="gatewright-merge-") as scratch:
        common = common_directory(start)
        git = make_bare(Path(scratch) / "merge.git", common)
        borrow_objects(git.git_dir, common)
        words = ("merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", target, head)
        try:
            said = git.execute(*words, ok=(0, 1), limit=_LIMIT)
        except CommandFailedError as error:
            if error.status == _USAGE:
                return None
            raise
        tree, *files = said.decode("utf-8", "backslashreplace").split("\0")
        conflicts = [name for name in files if name]
        if conflicts:
            named = ", ".join(ascii(name) for name in conflicts[:_MOST_NAMED])
            more = f" and {len(conflicts) - _MOST_NAMED} more" if len(conflicts) > _MOST_NAMED else ""
            raise GitError(f"the branch changes what the other side changed as well: {named}{more}", code=CONFLICTS)
        return Objects(git, git.git_dir).diff(target, tree)
