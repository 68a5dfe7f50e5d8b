"""The branches that runs have left in a repository on this host: which there are, and which of them can go.

A branch can go when all that it has is on a branch of the owner's own, and it is checked out nowhere. What is deleted is named
with the commit that it was at, so that it can be made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.host.checkout import checked_out_at
from gatewright.git.host.local_repository import LocalRepository
from gatewright.git.host.staged import common_directory
from gatewright.git.host.target_rules import HAS_HOOKS, watching_hook
from gatewright.git.refs import RUN_BRANCHES, is_object_id

#: merged: a branch that is no run's has it all; checked out: a work tree stands on it; unmerged: it has what no other has.
State = Literal["merged", "unmerged", "checked out"]
_FIELD = "\x1f"
_LIMIT = 64 << 20
#: Folders through which a ref is deleted; one that is a link leads out of the repository.
_FOLDERS = ("refs", "refs/heads", "refs/heads/gatewright", "logs", "logs/refs", "logs/refs/heads", "logs/refs/heads/gatewright")


@dataclass(frozen=True, slots=True)
class RunRef:
    """``name`` is the run's id; ``where`` says on which branch its commit is, or in which work tree."""

    name: str
    commit: str
    date: str
    subject: str
    state: State
    where: str = ""

    @property
    def ref(self) -> str:
        return RUN_BRANCHES + self.name


@dataclass(frozen=True, slots=True)
class LocalRunRefs:
    """The branches of runs in the repository that ``start`` lies in."""

    start: Path

    @property
    def place(self) -> str:
        return str(self.start)

    def found(self) -> tuple[RunRef, ...]:
        """All of them. Raises GitError."""
        return run_refs(self.start)

    def again(self, name: str) -> RunRef | None:
        """One of them as it is now. Raises GitError."""
        return next((each for each in run_refs(self.start, name) if each.name == name), None)

    def delete(self, found: RunRef) -> None:
        """See ``delete``."""
        delete(self.start, found)


def run_refs(start: Path, name: str = "") -> tuple[RunRef, ...]:
    """The branches of runs in the repository of ``start``, oldest first; with ``name`` that one and those below it.

    Raises GitError.
    """
    common = common_directory(start)
    git = GitCommand(common)
    form = _FIELD.join(("%(refname)", "%(objectname)", "%(committerdate:iso-strict)", "%(contents:subject)"))
    listed = git.execute("for-each-ref", "--sort=committerdate", f"--format={form}", RUN_BRANCHES + name, limit=_LIMIT)
    found = []
    for line in listed.decode("utf-8", "replace").splitlines():
        ref, commit, date, subject = (*line.split(_FIELD, 3), "", "", "")[:4]
        if is_object_id(commit):
            state, where = _state(git, ref, commit)
            found.append(RunRef(ref.removeprefix(RUN_BRANCHES), commit, date, subject, state, where))
    return tuple(found)


def delete(start: Path, found: RunRef) -> None:
    """Delete the branch, if it still is at that commit and is checked out nowhere.

    GitError: ``ref_moved``, ``target_checked_out``, ``target_has_hooks`` (a hook watches deletions), ``ref_folder_is_link`` for
    a repository that would have files elsewhere deleted.
    """
    common = common_directory(start)
    for folder in _FOLDERS:
        if (common / folder).is_symlink():
            raise GitError(f"{common / folder} is a link: nothing is deleted through it", code="ref_folder_is_link")
    if (place := checked_out_at(common, found.ref)) is not None:
        raise GitError(f"{found.ref} is checked out in {place}", code="target_checked_out")
    if hook := watching_hook(LocalRepository(common, common)):
        words = f"{hook} watches deletions, and is not run from here"
        raise GitError(f"{words}: git branch -D {found.ref.removeprefix('refs/heads/')}", code=HAS_HOOKS)
    try:
        GitCommand(common).execute("update-ref", "--no-deref", "-d", found.ref, found.commit)
    except GitError as error:
        raise GitError(f"{found.ref} could not be deleted: {error.message}", code="ref_moved") from error


def _state(git: GitCommand, ref: str, commit: str) -> tuple[State, str]:
    if (place := checked_out_at(git.git_dir, ref)) is not None:
        return "checked out", str(place)
    holding = git.execute(
        "for-each-ref",
        f"--contains={commit}",
        "--format=%(refname)",
        "refs/heads/",
        "refs/remotes/",
        "refs/tags/",
        limit=_LIMIT,
    )
    for name in holding.decode("utf-8", "replace").splitlines():
        if not name.startswith(RUN_BRANCHES):
            return "merged", name
    return "unmerged", ""
