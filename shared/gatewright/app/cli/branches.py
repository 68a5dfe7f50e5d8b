"""The implementation of ``refs list`` and ``refs tidy``: branches of runs, mirrors of the home folder, branches that expire.

For repositories of other hosts the process has a credential that pushes, and no identity of the bus. A process with both could
remove a change together with its record.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gatewright.app.cli import settings
from gatewright.app.cli.bundle_retention import make_collector
from gatewright.app.cli.context import find_place
from gatewright.app.cli.home import find_repository
from gatewright.app.cli.runs.listing import FULL_WIDTH, short_ids, table_lines
from gatewright.app.cli.settings import AgentSettings, operator_access
from gatewright.app.cli.user_git import user_checkout
from gatewright.app.retention.branch_expiry import BranchExpiry, BranchItem, RunRefs
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.app.retention.ledger_expiry import StoredEvidence
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.retention.policy_round import RoundOutcome
from gatewright.clock import SystemClock
from gatewright.errors import DeniedError, GitError, MalformedError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.host.identity import PROTOCOLS
from gatewright.git.host.run_refs import LocalRunRefs, RunRef, delete, run_refs
from gatewright.git.maintenance import mirrors_below
from gatewright.git.process import in_thread
from gatewright.git.refs import Source, parse_url
from gatewright.git.remote_run_refs import RemoteRunRefs
from gatewright.view.stages import PAGE_WIDTH

#: Below the home folder, for the duration of a round.
_COPIES = "branch-copies"
_STOPPED = "git_cancelled"


@dataclass(frozen=True, slots=True)
class RoundWatch:
    """Callbacks of a round. ``begun``: each repository. ``planned``: its plan. ``deleted``: the outcome of each branch.

    ``stopped`` ends a round.
    """

    begun: Callable[[str], None] = lambda _place: None
    planned: Callable[[Sequence[BranchItem]], None] = lambda _plan: None
    deleted: Callable[[ItemOutcome[BranchItem]], None] = lambda _done: None
    stopped: Callable[[], bool] = lambda: False


def remote_source(given: str | None) -> Source | None:
    """Return the source of a repository on another host; None for one on this host. Raises MalformedError (``bad_url``)."""
    if given is None or ":" not in given or (find_place().here / given).exists():
        return None
    source = parse_url(given, PROTOCOLS)
    return None if source.local else source


def find_sources(given: Sequence[str]) -> tuple[tuple[str | None, Source | None], ...]:
    """Resolve repository names, each with its source if it is on another host. None: the repository of the current folder.

    Raises:
        MalformedError: ``bad_url``; ``no_bus_identity_here`` where this process has an identity of the bus.
    """
    sources = tuple((each, remote_source(each)) for each in given or (None,))
    if any(source is not None for _, source in sources) and settings.load().nats_seed is not None:
        words = "GATEWRIGHT_NATS_SEED is set: one process could delete a change, and the record of it"
        raise MalformedError(words, code="no_bus_identity_here")
    return sources


def refuse_remote(given: Sequence[str]) -> None:
    """Raise MalformedError if a repository of another host is named."""
    if any(remote_source(each) is not None for each in given):
        words = "in repositories of other hosts a process of its own deletes branches: refs tidy --expired --repo URL"
        raise MalformedError(words, code="invalid_input")


def play_round(given: Sequence[str], watch: RoundWatch, *, yes: bool) -> RoundOutcome:
    """Run ``branch_round``. SIGINT, SIGTERM and SIGHUP end it with KeyboardInterrupt, and leave no copy and no git process."""

    async def play() -> RoundOutcome | None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            return await stoppable_round(given, watch, stop, yes=yes)
        except GitError as error:
            if error.reason == _STOPPED and stop.is_set():
                return None
            raise

    outcome = asyncio.run(play())
    if outcome is None:
        raise KeyboardInterrupt
    return outcome


async def stoppable_round(given: Sequence[str], watch: RoundWatch, stop: asyncio.Event, *, yes: bool) -> RoundOutcome:
    """Run ``branch_round`` in a thread. Setting ``stop`` ends running git processes, and no further branch is deleted.

    Raises GitError (``git_cancelled``) in that case.
    """
    playing = asyncio.create_task(in_thread(branch_round, given, replace(watch, stopped=stop.is_set), yes=yes))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not playing.done():
        playing.cancel()
    try:
        return await playing
    except asyncio.CancelledError:
        raise GitError("the round was stopped", code=_STOPPED) from None


def branch_round(given: Sequence[str], watch: RoundWatch, *, yes: bool) -> RoundOutcome:
    """Run one round in the named repositories, or in that of the current folder.

    If the only repository cannot be read, its GitError or DeniedError is raised. With several, the outcome records each error.

    Raises:
        ConfigurationError: ``nothing_expires`` or ``holds_unreadable``.
        MalformedError: as ``find_sources``; also if this host has no key to verify with.
        StoreError: a store cannot be read.
    """
    sources = find_sources(given)
    days = load_expiry(AgentSettings.load().policies).branch_days()
    evidence, access = make_collector(RetentionPolicy(), settings.load().bundle_store), operator_access()
    items: list[BranchItem] = []
    done: list[ItemOutcome[BranchItem]] = []
    unreached: list[ItemOutcome[str]] = []
    for name, source in sources:
        if watch.stopped():
            break
        try:
            with _open_refs(name, source, access) as branches:
                plan, went = _play_in_repository(branches, evidence, days, watch, yes=yes)
        except (GitError, DeniedError) as error:
            if len(sources) == 1:
                raise
            unreached.append(ItemOutcome(name or "", code=error.reason, message=error.message))
        else:
            items += plan
            done += went
    return RoundOutcome(branches=tuple(items), expired_branches=tuple(done), unreached=tuple(unreached))


def _play_in_repository(
    branches: RunRefs, evidence: StoredEvidence, days: int, watch: RoundWatch, *, yes: bool
) -> tuple[tuple[BranchItem, ...], tuple[ItemOutcome[BranchItem], ...]]:
    expiry = BranchExpiry(branches, evidence, days, SystemClock())
    watch.begun(branches.place)
    plan = expiry.plan()
    watch.planned(plan)
    return plan, expiry.carry_out(plan, watch.deleted, watch.stopped) if yes else ()


@contextlib.contextmanager
def _open_refs(name: str | None, source: Source | None, access: RepositoryAccess) -> Iterator[RunRefs]:
    if source is None:
        yield LocalRunRefs(user_checkout(find_local_repository(name)))
        return
    root = find_place().home.absolute() / _COPIES
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    mirrors_below(root)  # remove what killed processes left
    with tempfile.TemporaryDirectory(prefix="new-", dir=root) as folder:
        yield RemoteRunRefs(Path(folder) / "copy.git", source, access, most=settings.load().mirror_bytes)


def expiry_lines(items: Sequence[BranchItem], *, carried_out: bool) -> list[str]:
    """Format which branches of a repository expire and which stay, and why."""
    words = {"expire": "goes", "keep": "stays"}
    lines = [f"{words[each.action]:<6} gatewright/{each.branch.name} at {each.branch.commit} ({each.why})" for each in items]
    if any(each.action == "expire" for each in items) and not carried_out:
        lines.append("nothing was deleted; do it with --yes")
    return lines or ["no run has left a branch here"]


def left_lines(outcome: RoundOutcome) -> list[str]:
    """Format the branches that could not be deleted, and the repositories that could not be read."""
    left = [(f"gatewright/{each.item.branch.name}", each) for each in outcome.expired_branches if each.code]
    lines = [f"left {name}: {each.message} [{each.code}]" for name, each in left]
    return lines + [f"left all of {each.item}: {each.message} [{each.code}]" for each in outcome.unreached]


def expiry_document(outcome: RoundOutcome, *, carried_out: bool) -> dict[str, Any]:
    """Build the document of ``refs tidy --expired --json``."""
    return {
        "items": [{**_branch_entry(each), "action": each.action, "why": each.why} for each in outcome.branches or ()],
        "carried_out": carried_out,
        "done": [{**_branch_entry(each.item), "code": each.code, "message": each.message} for each in outcome.expired_branches],
        "unreached": [{"repository": each.item, "code": each.code, "message": each.message} for each in outcome.unreached],
    }


def _branch_entry(item: BranchItem) -> dict[str, str]:
    return {"repository": item.repository, "name": item.branch.name, "commit": item.branch.commit}


@dataclass(frozen=True, slots=True)
class MirrorRefs:
    """The refs that a mirror of the home folder keeps, so that their objects are not fetched again."""

    mirror: str
    refs: int


@dataclass(frozen=True, slots=True)
class BranchRemoval:
    """The outcome of one branch. ``code``: reason why it was kept; empty when it was deleted."""

    name: str
    commit: str
    code: str = ""
    message: str = ""


def find_local_repository(given: str | None) -> Path:
    """Return the named repository on this host, or that of the current folder. Raises MalformedError."""
    here = find_place().here
    if given is not None:
        return (here / Path(given).expanduser()).absolute()
    top = find_repository(here)
    if top is None:
        raise MalformedError(f"{here} is not in a git repository: give --repo PATH", code="invalid_input")
    return top


def list_branches(repository: Path) -> tuple[RunRef, ...]:
    """List the branches of runs. Raises GitError."""
    return run_refs(user_checkout(repository))


def list_mirrors(home: Path) -> tuple[MirrorRefs, ...]:
    """List the mirrors of every role in a home folder, with their numbers of refs. Mirrors are a cache, and deleted as one."""
    found = []
    for mirror in sorted(home.glob("**/mirrors/*.git")):
        packed = mirror / "packed-refs"
        lines = packed.read_text("ascii", "replace").splitlines() if packed.is_file() else []
        names = {line.partition(" ")[2] for line in lines if line[:1] not in ("#", "^")}
        loose = {f"refs/gate/keep/{file.name}" for file in (mirror / "refs" / "gate" / "keep").glob("*")}
        found.append(MirrorRefs(str(mirror.relative_to(home)), len(names | loose)))
    return tuple(found)


def plan_removal(found: Sequence[RunRef], wanted: Sequence[str], *, force: bool) -> tuple[RunRef, ...]:
    """Select the branches to delete: merged ones, and with ``force`` named ones that are not merged. Checked-out ones stay.

    Raises MalformedError (``run_unknown``) if no branch of a run has a given name, and if ``force`` comes without names.
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


def delete_branches(repository: Path, plan: Sequence[RunRef]) -> tuple[BranchRemoval, ...]:
    """Delete the planned branches, one after another. A branch that changed meanwhile is kept and reported."""
    done = []
    for each in plan:
        try:
            delete(user_checkout(repository), each)
        except GitError as error:
            done.append(BranchRemoval(each.name, each.commit, error.reason, error.message))
        else:
            done.append(BranchRemoval(each.name, each.commit))
    return tuple(done)


def ref_lines(found: Sequence[RunRef], mirrors: Sequence[MirrorRefs], width: int | None = None) -> list[str]:
    """Format the list within ``width`` columns of a terminal; with None every column is complete."""
    subjects = [f"({each.where}) {each.subject}" if each.where else each.subject for each in found]
    names = [each.name for each in found]
    if width is not None and width < PAGE_WIDTH:
        names = short_ids(names)
    rows: list[tuple[str, ...]] = [
        ("BRANCH", "STATE"),
        *((f"gatewright/{name}", each.state) for name, each in zip(names, found, strict=True)),
    ]
    if width is None or width >= FULL_WIDTH:
        rest = (("COMMIT", "DATE"), *((each.commit[:12], each.date[:10]) for each in found))
        rows = [(row[0], *more, row[1]) for row, more in zip(rows, rest, strict=True)]
    lines = table_lines(rows, ["SUBJECT", *subjects], width) if found else ["no run has left a branch here"]
    if width is not None and mirrors:
        return [*lines, f"{len(mirrors)} mirrors keep {sum(each.refs for each in mirrors)} refs"]
    return lines + [f"mirror {each.mirror}: {each.refs} refs kept" for each in mirrors]


def removal_lines(found: Sequence[RunRef], plan: Sequence[RunRef], *, carried_out: bool) -> list[str]:
    """Format which branches are deleted and which stay."""
    lines = [
        f"{'goes' if each in plan else 'stays':<6} gatewright/{each.name} at {each.commit} ({each.state})" for each in found
    ]
    if not found:
        return ["no run has left a branch here"]
    if plan and not carried_out:
        lines.append("nothing was deleted; do it with --yes")
    return lines
