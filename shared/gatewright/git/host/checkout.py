"""A repository that a person works in, looked at: what a branch adds to another, what is not committed, what is checked out.

Nothing is written to it, no file of ours is made, and nothing that its configuration names (hooks, filters) is started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gatewright.errors import GitError, MalformedError
from gatewright.git.command import CommandFailedError, GitCommand
from gatewright.git.host.branch_merge import merge_change
from gatewright.git.host.damage import damage, damage_error
from gatewright.git.host.staged import common_directory, git_directory, top_directory
from gatewright.git.objects import Objects
from gatewright.git.refs import check_ref, full_names, is_object_id, is_ref_name

#: Commits of a branch whose authors are looked at.
_MOST_COMMITS = 10_000
#: The most bytes that git may say about them.
_LIMIT = 64 << 20
#: Fields end with it: the names of authors and the subjects of commits, which strangers write, cannot hold it.
_END = "\0"
_LONGEST_REVISION = 1024
#: What git takes for the beginning of an object id.
_SHORT_ID = re.compile(r"[0-9a-fA-F]{4,63}")  # noqa: TID251 - linear: one repetition


@dataclass(frozen=True, slots=True)
class BranchChange:
    """What ``head`` has that ``onto`` lacks: ``patch`` leads from ``onto`` to the merge of both. ``base`` is where they parted.

    Where git is older than 2.38 and cannot compute the merge, ``patch`` leads from ``base`` to ``head``.

    ``authors`` are (name, address) of its commits without repetition, ``subject`` is the first line of the last commit.
    """

    head: str
    base: str
    commits: int
    patch: bytes
    authors: tuple[tuple[str, str], ...]
    subject: str


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """How many files of a work tree differ from its last commit, and how many git does not know."""

    changed: int
    untracked: int


def branch_change(start: Path, branch: str, onto: str) -> BranchChange:
    """What the branch (or tag, or commit) ``branch`` of the repository of ``start`` adds to ``onto``.

    GitError: ``ref_not_found``, ``no_common_history``, ``branch_conflicts``, ``repository_partial``, ``repository_damaged``,
    ``repository_shallow``;
    ``branch_has_nothing`` when ``onto`` has all of it already, also as a squashed commit; MalformedError (``bad_ref``);
    PatchError (``patch_too_large``).
    """
    try:
        return _branch_change(start, branch, onto)
    except CommandFailedError as error:
        if (cause := damage(error, str(start), common_directory(start) / "objects")) is not None:
            raise cause from error
        raise


def _branch_change(start: Path, branch: str, onto: str) -> BranchChange:
    git = GitCommand(git_directory(start))
    head, target = commit_named(start, branch), commit_named(start, onto)
    bases = git.execute("merge-base", "--all", target, head, ok=(0, 1)).decode("ascii", "replace").split()
    if not bases:
        if (common_directory(start) / "shallow").is_file():
            words = f"{branch} and {onto} have no commit in common here: this is a shallow clone, whose history is cut off"
            raise GitError(f"{words}; git fetch --unshallow brings the rest", code="repository_shallow")
        raise GitError(f"{branch} and {onto} have no commit in common", code="no_common_history")
    limit = f"--max-count={_MOST_COMMITS}"
    form = ("-z", "--format=%an%x00%ae%x00%s")
    listed = git.execute("log", "--no-show-signature", "--no-mailmap", limit, *form, head, f"^{target}", "--", limit=_LIMIT)
    fields = listed.decode("utf-8", "replace").split(_END)[:-1]
    if not fields:
        raise GitError(f"{branch} has no commit that {onto} lacks", code="branch_has_nothing")
    if len(fields) % 3:
        raise GitError("the output of git log cannot be read")
    authors = tuple(dict.fromkeys(zip(fields[::3], fields[1::3], strict=True)))
    if bases == [target]:
        patch = Objects(git, git.git_dir).diff(target, head)
    else:
        merged = merge_change(start, target, head)
        patch = merged if merged is not None else Objects(git, git.git_dir).diff(bases[0], head)
    if not patch:
        raise GitError(f"there is nothing to land: {onto} has all changes of {branch} already", code="branch_has_nothing")
    return BranchChange(head, bases[0], len(fields) // 3, patch, authors, fields[2])


def exact_ref(start: Path, name: str) -> str:
    """``name`` in a form that means the same in every clone's copy of the repository of ``start``.

    ``HEAD``, a branch, a tag, a full ref name and a full commit id stay as they are. A branch of a remote (``origin/main``)
    becomes its full ref name; a short commit id or a revision expression (``HEAD~2``, ``@{upstream}``) becomes the full commit
    id. Raises GitError (``ref_not_found``, ``ref_ambiguous``) and MalformedError (``bad_ref``).
    """
    if not name or name.startswith("-") or not name.isprintable() or len(name) > _LONGEST_REVISION:
        raise MalformedError(f"not a name of a commit: {name[:80]!a}", code="bad_ref")
    if name == "HEAD" or name.startswith("refs/") or is_object_id(name.lower()):
        return check_ref(name)
    git = GitCommand(git_directory(start))
    for full in (*full_names(name), f"refs/remotes/{name}") if is_ref_name(name) else ():
        if git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", full, ok=(0, 1, 128)).strip():
            return full if full.startswith("refs/remotes/") else name
    revision = f"{name}^{{commit}}"
    found = git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", revision, ok=(0, 1, 128))
    if commit := found.decode("ascii", "replace").strip():
        return commit
    if _SHORT_ID.fullmatch(name):
        listed = git.execute("rev-parse", f"--disambiguate={name}").split()
        if len(listed) > 1:
            words = f"{name} is the beginning of {len(listed)} object ids here: give more digits"
            raise GitError(words, code="ref_ambiguous")
    raise GitError(f"the repository has no branch, tag or commit {name!a}{_near(git, name)}", code="ref_not_found")


def _near(git: GitCommand, name: str) -> str:
    """Words about the branch of a remote that is called so."""
    listed = git.execute("for-each-ref", "--format=%(refname:lstrip=2)", "refs/remotes/").decode("utf-8", "replace").split()
    near = next((each for each in listed if each.partition("/")[2] == name), None)
    return f"; did you mean {near}?" if near is not None else ""


def commit_named(start: Path, name: str) -> str:
    """The full id of the commit that a branch, tag, remote branch or commit id names. GitError (``ref_not_found``)."""
    if name != "HEAD":
        check_ref(name)
    git = GitCommand(git_directory(start))
    for full in (f"refs/heads/{name}", f"refs/remotes/{name}", name):
        found = git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", f"{full}^{{commit}}", ok=(0, 1, 128))
        if commit := found.decode("ascii", "replace").strip():
            return commit
        named = git.execute("rev-parse", "--verify", "--quiet", "--end-of-options", full, ok=(0, 1, 128))
        if object_id := named.decode("ascii", "replace").strip():
            _refuse_unreadable(git, object_id, common_directory(start) / "objects")
            raise GitError(f"{name!r} is no commit and no tag of one", code="ref_not_found")
    raise GitError(f"the repository has no branch and no commit {name!r}", code="ref_not_found")


def _refuse_unreadable(git: GitCommand, object_id: str, objects: Path) -> None:
    """Raise GitError (``repository_damaged``, ``repository_partial``) where the object is not there, or cannot be read."""
    try:
        git.execute("cat-file", "-t", object_id)
    except CommandFailedError as error:
        cause = damage(error, "the repository", objects)
        raise cause or damage_error("the repository", f"the object {object_id}", objects) from error


def uncommitted(start: Path, excludes: Path | None = None, *, beyond_index: bool = False) -> Uncommitted:
    """What the work tree of ``start`` has that its last commit lacks; nothing for a bare repository and before any commit.

    With ``beyond_index``: what it has that the index lacks, which is what a commit of the index leaves out. ``excludes`` is the
    user's own list of files to pass over. Raises GitError.
    """
    top = top_directory(start)
    if top is None:
        return Uncommitted(0, 0)
    git = GitCommand(git_directory(start))
    try:
        commit_named(start, "HEAD")
    except (GitError, MalformedError):
        return Uncommitted(0, 0)
    settings = [f"core.excludesFile={excludes or '/dev/null'}", *_without_filters(git)]
    options = [word for setting in settings for word in ("-c", setting)]
    shown = ("--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal")
    said = git.execute(*options, "status", *shown, timeout=30, limit=_LIMIT, environment={"GIT_WORK_TREE": str(top)})
    lines = [line for line in said.split(b"\0") if line]
    untracked = sum(line.startswith(b"?? ") for line in lines)
    changed = sum(not beyond_index or line[1:2] != b" " for line in lines) - untracked
    return Uncommitted(changed, untracked)


def checked_out_at(git_dir: Path, ref: str) -> Path | None:
    """The work tree, the main one or a linked one, in which the branch of the full name ``ref`` is checked out."""
    return checked_out_branches(git_dir).get(ref)


def checked_out_branches(git_dir: Path) -> dict[str, Path]:
    """The work trees, the main one and linked ones, by the full name of the branch that is checked out there."""
    said = GitCommand(git_dir).execute("worktree", "list", "--porcelain", "-z", limit=_LIMIT)
    found: dict[str, Path] = {}
    for block in said.decode("utf-8", "surrogateescape").split(_END + _END):
        lines = block.split(_END)
        branch = next((line.removeprefix("branch ") for line in lines if line.startswith("branch ")), None)
        if branch is not None and "bare" not in lines:
            found.setdefault(branch, Path(lines[0].removeprefix("worktree ")))
    return found


def _without_filters(git: GitCommand) -> list[str]:
    """Settings that switch off every filter of the repository's configuration: comparing files would start them."""
    named = git.execute("config", "--null", "--name-only", "--includes", "--get-regexp", r"^filter\.", ok=(0, 1))
    drivers = {name.rpartition(".")[0] for name in named.decode("utf-8", "surrogateescape").split("\0") if name}
    off = ("clean=", "smudge=", "process=", "required=false")
    return [f"{driver}.{setting}" for driver in sorted(drivers) for setting in off]
