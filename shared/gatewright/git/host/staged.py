"""The tree that a commit of the index would have, made without touching the repository.

The index file is copied, new objects go to a folder of our own, and git runs with Gatewright's configuration over the
repository's: no hook, filter or monitor of its owner starts. The result is a bare repository in that folder whose one
branch is the commit; it borrows the objects that it lacks.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from gatewright.git.command import GitCommand
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.objects import Objects

BRANCH = "refs/heads/staged"


def staged_commit(checkout: UserCheckout, index: Path | None, baseline: str, scratch: Path) -> tuple[str, str]:
    """Return address and commit id of the index content; ``index``: its path as git reports it, None for the usual place.

    ``baseline`` (a full commit id) becomes the commit's parent. Raises GitError, also for an index with conflicts.
    """
    git_dir, common = checkout.folders.git_dir, checkout.folders.common
    git = make_bare(scratch / "staged.git", common)
    bare = git.git_dir
    copy, given = bare / "index", index if index is not None else git_dir / "index"
    if given.exists():
        shutil.copyfile(given, copy)
        for shared in given.parent.glob("sharedindex.*"):
            shutil.copyfile(shared, bare / shared.name)
    # Before the objects are borrowed: git would touch those that it finds there already, and the repository is only read.
    tree = git.execute("write-tree", "--missing-ok", index=copy).decode("ascii", "replace").strip()
    borrow_objects(bare, common)
    when = datetime(2000, 1, 1, tzinfo=UTC)
    commit = Objects(git, bare / "private").commit_tree(tree, baseline, "what is staged", when)
    git.execute("update-ref", BRANCH, commit)
    return str(bare), commit


def make_bare(bare: Path, common: Path) -> GitCommand:
    """Create an empty bare repository at ``bare``, with the object format of the repository whose git directory is
    ``common``."""
    bare.mkdir()
    git = GitCommand(bare)
    git.execute("init", "--quiet", "--bare", "--template=", f"--object-format={_object_format(common)}")
    return git


def borrow_objects(bare: Path, common: Path) -> None:
    """Let the repository at ``bare`` read the objects of the repository whose git directory is ``common``."""
    alternates = bare / "objects/info/alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{common / 'objects'}\n")
    if (common / "shallow").exists():
        shutil.copyfile(common / "shallow", bare / "shallow")


def _object_format(common: Path) -> str:
    output = GitCommand(common).execute("rev-parse", "--show-object-format")
    return output.decode("ascii", "replace").strip()
