"""The tree that a commit of the index would have, made without touching the repository.

The index file is copied, new objects go to a folder of our own, and git runs with Gatewright's configuration over the
repository's: no hook, no filter, no monitor of its owner is started. What is handed out is a bare repository in that folder
whose one branch is the commit; it borrows the objects that it lacks.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from gatewright.errors import GitError
from gatewright.git.command import GitCommand, executable, words
from gatewright.git.objects import Objects
from gatewright.git.process import run_to_end

BRANCH = "refs/heads/staged"


def common_directory(start: Path) -> Path:
    """The common git directory of the repository that ``start`` lies in. GitError (``not_a_repository``)."""
    return _rev_parse_path(start, "--git-common-dir")


def git_directory(start: Path) -> Path:
    """The git directory of the work tree that ``start`` lies in: its own, where it is a linked one. GitError."""
    return _rev_parse_path(start, "--git-dir")


def top_directory(start: Path) -> Path | None:
    """The top of the work tree that ``start`` lies in; None in a bare repository. GitError."""
    inside = _rev_parse(start, "--is-inside-work-tree")
    return _rev_parse_path(start, "--show-toplevel") if inside == "true" else None


def hooks_directory(start: Path) -> Path:
    """Where git looks for the hooks of the repository that ``start`` lies in, core.hooksPath included. GitError."""
    return _rev_parse_path(start, "--git-path", "hooks")


def staged_commit(start: Path, index: Path | None, baseline: str, scratch: Path) -> tuple[str, str]:
    """Address and commit id of what the index holds; ``index``: where git says it is, None for the usual place.

    ``baseline`` (a full commit id) becomes the commit's parent. Raises GitError, also for an index with conflicts.
    """
    git_dir, common = git_directory(start), common_directory(start)
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
    """An empty bare repository at ``bare``, with object ids of the same kind as the one whose git directory is ``common``."""
    bare.mkdir()
    git = GitCommand(bare)
    git.execute("init", "--quiet", "--bare", "--template=", f"--object-format={_object_format(common)}")
    return git


def borrow_objects(bare: Path, common: Path) -> None:
    """Let the repository at ``bare`` read the objects of the one whose git directory is ``common``."""
    alternates = bare / "objects/info/alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{common / 'objects'}\n")
    if (common / "shallow").exists():
        shutil.copyfile(common / "shallow", bare / "shallow")


def head_commit(start: Path, ref: str = "HEAD") -> str:
    """The full commit id of ``ref`` in the repository of ``start``. GitError (``ref_not_found``)."""
    git = GitCommand(git_directory(start))
    found = git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", ok=(0, 1, 128))
    commit = found.decode("ascii", "replace").strip()
    if not commit:
        raise GitError(f"there is no commit {ref} here; in a shallow clone, fetch it first", code="ref_not_found")
    return commit


def _rev_parse_path(start: Path, *question: str) -> Path:
    """Where git finds the directory, by its own search upwards."""
    return (start / _rev_parse(start, *question)).resolve()


def _rev_parse(start: Path, *question: str) -> str:
    variables = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    asked = [executable("git"), "-c", "core.fsmonitor=false", "-C", str(start), "rev-parse", *question]
    finished = run_to_end(asked, variables, stdin=None, timeout=30, limit=1 << 16)
    if finished.status != 0:
        raise GitError(f"{start} is no git repository that can be used: {words(finished.stderr)}", code="not_a_repository")
    return finished.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def _object_format(common: Path) -> str:
    said = GitCommand(common).execute("rev-parse", "--show-object-format")
    return said.decode("ascii", "replace").strip()
