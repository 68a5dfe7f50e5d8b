"""The changes of a branch in a person's repository relative to another branch, as one patch.

It writes nothing to the repository and starts nothing that the configuration names (hooks, filters, merge drivers).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import GitError
from gatewright.git.command import CommandFailedError
from gatewright.git.host.damage import damage
from gatewright.git.host.staged import borrow_objects, make_bare
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.objects import Objects

CONFLICTS: Final = "branch_conflicts"
#: The exit status of git for options that it does not know.
_USAGE: Final = 129
#: Conflicting files that an error names.
_MOST_NAMED: Final = 5
#: Largest output of git about conflicts, in bytes.
_CONFLICTS_LIMIT: Final = 16 << 20
#: Maximum commits of a branch whose authors are read.
_MOST_COMMITS = 10_000
#: Largest output of git about them, in bytes.
_LIMIT = 64 << 20
#: Fields end with it: the names of authors and the subjects of commits, which strangers write, cannot hold it.
_END = "\0"


@dataclass(frozen=True, slots=True)
class BranchChange:
    """The changes in ``head`` that ``onto`` lacks: ``patch`` leads from ``onto`` to the merge of both. ``base`` is their merge
    base.

    Before git 2.38, which cannot compute the merge, ``patch`` leads from ``base`` to ``head``.

    ``authors`` are the distinct (name, address) pairs of its commits, ``subject`` is the first line of the last commit.
    """

    head: str
    base: str
    commits: int
    patch: bytes
    authors: tuple[tuple[str, str], ...]
    subject: str


def branch_change(checkout: UserCheckout, branch: str, onto: str) -> BranchChange:
    """Return the changes of the branch (or tag, or commit) ``branch`` relative to ``onto``.

    Raises:
        GitError: ``ref_not_found``, ``no_common_history``, ``branch_conflicts``, ``repository_partial``,
            ``repository_damaged``,
            ``repository_shallow``; ``branch_has_nothing`` if ``onto`` already has all of it, also as a squashed commit.
        MalformedError: ``bad_ref``.
        PatchError: ``patch_too_large``.
    """
    try:
        return _branch_change(checkout, branch, onto)
    except CommandFailedError as error:
        if (cause := damage(error, str(checkout.start), checkout.folders.common / "objects")) is not None:
            raise cause from error
        raise


def _branch_change(checkout: UserCheckout, branch: str, onto: str) -> BranchChange:
    git, common = checkout.objects, checkout.folders.common
    head, target = checkout.commit_named(branch), checkout.commit_named(onto)
    bases = git.execute("merge-base", "--all", target, head, ok=(0, 1)).decode("ascii", "replace").split()
    if not bases:
        if (common / "shallow").is_file():
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
        merged = _merge_change(common, target, head)
        patch = merged if merged is not None else Objects(git, git.git_dir).diff(bases[0], head)
    if not patch:
        raise GitError(f"there is nothing to land: {onto} has all changes of {branch} already", code="branch_has_nothing")
    return BranchChange(head, bases[0], len(fields) // 3, patch, authors, fields[2])


def _merge_change(common: Path, target: str, head: str) -> bytes | None:
    """Return the patch from ``target`` to its merge with ``head`` (two commit ids); empty if ``target`` has all of ``head``.

    It is computed in a bare repository of our own that borrows the objects. That repository has no configuration and no
    attributes, so no merge driver of the owner starts. Returns None before git 2.38, which needs a work tree to merge.

    Raises GitError (``branch_conflicts``, with the files), and PatchError (``patch_too_large``).
    """
    with tempfile.TemporaryDirectory(prefix="gatewright-merge-") as scratch:
        git = make_bare(Path(scratch) / "merge.git", common)
        borrow_objects(git.git_dir, common)
        words = ("merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", target, head)
        try:
            output = git.execute(*words, ok=(0, 1), limit=_CONFLICTS_LIMIT)
        except CommandFailedError as error:
            if error.status == _USAGE:
                return None
            raise
        tree, *files = output.decode("utf-8", "backslashreplace").split("\0")
        conflicts = [name for name in files if name]
        if conflicts:
            named = ", ".join(ascii(name) for name in conflicts[:_MOST_NAMED])
            more = f" and {len(conflicts) - _MOST_NAMED} more" if len(conflicts) > _MOST_NAMED else ""
            raise GitError(f"the branch changes what the other side changed as well: {named}{more}", code=CONFLICTS)
        return Objects(git, git.git_dir).diff(target, tree)
