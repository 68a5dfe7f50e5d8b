"""``gatewright refs list``: what runs have left in a repository and in the mirrors of the home folder, and what can go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.context import find_place
from gatewright.app.cli.home import find_repository
from gatewright.app.cli.user_git import user_checkout
from gatewright.errors import GitError, MalformedError
from gatewright.git.host.run_refs import RunRef, delete, run_refs


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The refs that a mirror of the home folder keeps, so that what was fetched is not fetched again."""

    mirror: str
    refs: int


@dataclass(frozen=True, slots=True)
class Tidied:
    """What became of one branch; ``code`` is the reason why it was left, empty when it is gone."""

    name: str
    commit: str
    code: str = ""
    message: str = ""


def repository_of(given: str | None) -> Path:
    """The repository on this host that is meant: the one that was named, or that the user stands in. Raises MalformedError."""
    here = find_place().here
    if given is not None:
        return (here / Path(given).expanduser()).absolute()
    top = find_repository(here)
    if top is None:
        raise MalformedError(f"{here} is not in a git repository: give --repo PATH", code="invalid_input")
    return top


def list_branches(repository: Path) -> tuple[RunRef, ...]:
    """The branches of runs. Raises GitError."""
    return run_refs(user_checkout(repository))


def list_mirrors(home: Path) -> tuple[Mirrored, ...]:
    """The mirrors of every role in a home folder, with how many refs each keeps. They are a cache, and tidied as one."""
    found = []
    for mirror in sorted(home.glob("**/mirrors/*.git")):
        packed = mirror / "packed-refs"
        lines = packed.read_text("ascii", "replace").splitlines() if packed.is_file() else []
        names = {line.partition(" ")[2] for line in lines if line[:1] not in ("#", "^")}
        loose = {f"refs/gate/keep/{file.name}" for file in (mirror / "refs" / "gate" / "keep").glob("*")}
        found.append(Mirrored(str(mirror.relative_to(home)), len(names | loose)))
    return tuple(found)


def plan_removal(found: Sequence[RunRef], wanted: Sequence[str], *, force: bool) -> tuple[RunRef, ...]:
    """What can go: merged branches; with ``force`` unmerged ones that are named; never one that is checked out.

    Raises MalformedError (``run_unknown``) for a name that no branch of a run has, and where ``force`` names none.
    """
    if force and not wanted:
        raise MalformedError("name the runs whose unmerged branches are to go: refs tidy --force RUN...", code="invalid_input")
    known = {each.name for each in found}
    if unknown := [name for name in wanted if name not in known]:
        raise MalformedError(
            f"no branch gatewright/{unknown[0]} is here; `gatewright refs list` shows them", code="run_unknown"
        )
    meant = [each for each in found if not wanted or each.name in wanted]
    return tuple(each for each in meant if each.state == "merged" or (force and each.state == "unmerged"))


def tidy(repository: Path, plan: Sequence[RunRef]) -> tuple[Tidied, ...]:
    """Delete what is planned, one after another; what has changed meanwhile is left and told."""
    done = []
    for each in plan:
        try:
            delete(user_checkout(repository), each)
        except GitError as error:
            done.append(Tidied(each.name, each.commit, error.reason, error.message))
        else:
            done.append(Tidied(each.name, each.commit))
    return tuple(done)


def ref_lines(found: Sequence[RunRef], mirrors: Sequence[Mirrored]) -> list[str]:
    """The list for people."""
    lines = (
        [f"{'BRANCH':<36} {'COMMIT':<12} {'DATE':<10} {'STATE':<11} SUBJECT"] if found else ["no run has left a branch here"]
    )
    for each in found:
        name = f"gatewright/{each.name}"
        where = f"  ({each.where})" if each.where else ""
        lines.append(f"{name:<36} {each.commit[:12]} {each.date[:10]:<10} {each.state:<11} {each.subject[:60]}{where}")
    lines += [f"mirror {each.mirror}: {each.refs} refs kept" for each in mirrors]
    return lines


def plan_lines(found: Sequence[RunRef], plan: Sequence[RunRef], *, carried_out: bool) -> list[str]:
    """What goes and what stays, for people."""
    lines = [
        f"{'goes' if each in plan else 'stays':<6} gatewright/{each.name} at {each.commit} ({each.state})" for each in found
    ]
    if not found:
        return ["no run has left a branch here"]
    if plan and not carried_out:
        lines.append("nothing was deleted; do it with --yes")
    return lines
