"""The branches that runs created in a repository on this host, and which of them can be deleted.

A branch can be deleted if all its commits are on a branch of the owner, and it is checked out nowhere. Output names each
deleted branch with its commit, so that it can be restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.host.local_repository import LocalRepository
from gatewright.git.host.owner import as_owner
from gatewright.git.host.target_rules import HAS_HOOKS, watching_hook
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.host.work_trees import checked_out_at, checked_out_branches
from gatewright.git.objects import BLOBS_LIMIT
from gatewright.git.refs import RUN_BRANCHES, is_object_id

#: merged: an owner's branch contains it; checked out: a work tree uses it; unmerged: it has commits of its own.
State = Literal["merged", "unmerged", "checked out"]
#: The field separator as git prints it, and as a format requests it. No name and no subject can contain it.
_FIELD, _ASKED = "\0", "%00"
#: The refs of an owner's branches and tags.
_OWNERS = ("refs/heads/", "refs/remotes/", "refs/tags/")
_LIMIT = 64 << 20
#: Folders through which a ref is deleted; one that is a link leads out of the repository.
_FOLDERS = ("refs", "refs/heads", "refs/heads/gatewright", "logs", "logs/refs", "logs/refs/heads", "logs/refs/heads/gatewright")


@dataclass(frozen=True, slots=True)
class RunRef:
    """A branch created by a run. ``name`` is the run's id; ``where`` names the branch that contains its commit, or the work
    tree."""

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
    """The branches of runs in a repository on this host."""

    checkout: UserCheckout

    @property
    def place(self) -> str:
        return str(self.checkout.start)

    def found(self) -> tuple[RunRef, ...]:
        """Return all run branches. Raises GitError."""
        return run_refs(self.checkout)

    def again(self, name: str) -> RunRef | None:
        """Return the current state of one run branch. Raises GitError."""
        return next((each for each in run_refs(self.checkout, name) if each.name == name), None)

    def delete(self, found: RunRef) -> None:
        """See ``delete``."""
        delete(self.checkout, found)


def run_refs(checkout: UserCheckout, name: str = "") -> tuple[RunRef, ...]:
    """The branches of runs in ``checkout``, oldest first; with ``name`` that one and those below it.

    Raises GitError.
    """
    common = checkout.folders.common
    git = GitCommand(common)
    form = _ASKED.join(("%(refname)", "%(objectname)", "%(objecttype)", "%(committerdate:iso-strict)", "%(contents:subject)"))
    listed = git.execute("for-each-ref", "--sort=committerdate", f"--format={form}", RUN_BRANCHES + name, limit=_LIMIT)
    lines = [(*line.split(_FIELD, 4), "", "", "", "")[:5] for line in _split_lines(listed)]
    named = [line for line in lines if is_object_id(line[1])]
    used = checked_out_branches(common) if named else {}
    idle = {ref: commit for ref, commit, kind, _, _ in named if ref not in used and kind == "commit"}
    holders = _holders(git, idle)
    found = []
    for ref, commit, _, date, subject in named:
        state: State = "checked out" if ref in used else "merged" if ref in holders else "unmerged"
        where = str(used[ref]) if ref in used else holders.get(ref, "")
        found.append(RunRef(ref.removeprefix(RUN_BRANCHES), commit, date, subject, state, where))
    return tuple(found)


def delete(checkout: UserCheckout, found: RunRef) -> None:
    """Delete the branch, if it still is at that commit and is checked out nowhere.

    GitError: ``ref_moved``, ``target_checked_out``, ``target_has_hooks`` (a hook watches deletions), ``ref_folder_is_link`` for
    a repository that would have files elsewhere deleted; ``target_not_own``.
    """
    common = checkout.folders.common
    for folder in _FOLDERS:
        if (common / folder).is_symlink():
            raise GitError(f"{common / folder} is a link: nothing is deleted through it", code="ref_folder_is_link")
    if (place := checked_out_at(common, found.ref)) is not None:
        raise GitError(f"{found.ref} is checked out in {place}", code="target_checked_out")
    if hook := watching_hook(LocalRepository(common, common)):
        words = f"{hook} watches deletions, and is not run from here"
        raise GitError(f"{words}: git branch -D {found.ref.removeprefix('refs/heads/')}", code=HAS_HOOKS)
    try:
        confinement = as_owner(LocalRepository(common, common))
        GitCommand(common).execute("update-ref", "--no-deref", "-d", found.ref, found.commit, confinement=confinement)
    except GitError as error:
        raise GitError(f"{found.ref} could not be deleted: {error.message}", code="ref_moved") from error


def _holders(git: GitCommand, runs: Mapping[str, str]) -> dict[str, str]:
    """Return, by run branch, an owner's branch or tag that contains it; run branches without one are left out.

    The number of git processes grows with the owner's branches that are named, not with the branches of runs.
    """
    owners = _owners(git)
    if not runs or not owners:
        return {}
    wanted = (*sorted(set(runs.values())), *(f"^{owner}" for owner in owners))
    lines = "".join(f"{each}\n" for each in wanted).encode()
    unmerged = set(git.execute("rev-list", "--stdin", stdin=lines, limit=_LIMIT).decode("ascii", "replace").split())
    waiting = {ref: commit for ref, commit in runs.items() if commit not in unmerged}
    found: dict[str, str] = {}
    while waiting:
        ref, commit = next(iter(waiting.items()))
        holder = _first_holder(git, commit)
        if holder is None:
            del waiting[ref]  # the owner's branch was deleted meanwhile
            continue
        have = _ref_names(git, f"--merged={holder}", RUN_BRANCHES)
        found |= {each: holder for each in waiting if each in have or each == ref}
        waiting = {each: commit for each, commit in waiting.items() if each not in found}
    return found


def _owners(git: GitCommand) -> set[str]:
    """The commits that the owner's branches and tags lead to."""
    form = _ASKED.join(("%(refname)", "%(objecttype)", "%(objectname)", "%(*objecttype)", "%(*objectname)"))
    listed = git.execute("for-each-ref", f"--format={form}", *_OWNERS, limit=_LIMIT)
    lines = [line.split(_FIELD) for line in _split_lines(listed) if not line.startswith(RUN_BRANCHES)]
    pairs = [pair for line in lines if len(line) == 5 for pair in ((line[1], line[2]), (line[3], line[4]))]
    return {object_id for kind, object_id in pairs if kind == "commit"}


def _first_holder(git: GitCommand, commit: str) -> str | None:
    names = _ref_names(git, f"--contains={commit}", *_OWNERS)
    return next((name for name in names if not name.startswith(RUN_BRANCHES)), None)


def _ref_names(git: GitCommand, *words: str) -> dict[str, None]:
    listed = git.execute("for-each-ref", "--format=%(refname)", *words, limit=_LIMIT)
    return dict.fromkeys(_split_lines(listed))


def _split_lines(listed: bytes) -> list[str]:
    """Split git's output at LF only; ``splitlines`` would also split at U+2028, which a branch name may contain."""
    return [line for line in listed.decode("utf-8", "surrogateescape").split("\n") if line]


# A new ref in a repository on this host, with the objects that it needs, without reading any existing ref.
# ``git push`` processes all refs on both sides. This module processes one: it packs the objects against the commit's parents,
# unpacks them in the target, checks that they are complete, and creates the ref if it does not exist. A process that is killed
# in between leaves unreachable objects, which the owner's git removes.

#: Objects from which a pack is kept instead of being unpacked; git's own default for pushes.
_UNPACKED = 100
#: The bytes of a pack's header with the number of objects (gitformat-pack).
_COUNT = slice(8, 12)


def make_ref(
    mirror: GitCommand,
    target: GitCommand,
    commit: str,
    ref: str,
    *,
    settings: Mapping[str, str],
    committer: Mapping[str, str],
    confinement: tuple[str, ...],
    timeout: float,
) -> None:
    """Create ``ref`` of ``target`` at ``commit`` of ``mirror``.

    Args:
        settings: override the target's own.
        committer: the identity for the target's reflog.
        confinement: a command prefix that confines what runs in the target.

    Raises:
        CommandFailedError: the ref exists, or a parent is missing.
    """
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

    def there(*words: str, stdin: bytes | None = None) -> bytes:
        return target.execute(*options, *words, stdin=stdin, environment=committer, timeout=timeout, confinement=confinement)

    packing = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
    pack = mirror.execute(*packing, stdin=f"{commit}^!\n".encode(), timeout=timeout, limit=BLOBS_LIMIT)
    small = int.from_bytes(pack[_COUNT], "big") < _UNPACKED
    there(*(("unpack-objects", "-q") if small else ("index-pack", "--stdin", "--fix-thin")), stdin=pack)
    # The current branch's history is complete; the walk ends there, mostly at the commit's parent.
    there("rev-list", "--objects", "--quiet", "--end-of-options", commit, "^HEAD")
    there("update-ref", "--no-deref", "--end-of-options", ref, commit, "0" * len(commit))
