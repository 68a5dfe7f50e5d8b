"""``gatewright refs tidy --expired``: in which repositories, by whose evidence and policy, and how it is told.

For repositories of other hosts the process has a credential that pushes, and no identity of the bus: one that had both could
remove a change and the record of it.
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
from gatewright.app.cli.bundles.retention import make_collector
from gatewright.app.cli.context import find_place
from gatewright.app.cli.operations.run_branches import repository_of
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
from gatewright.git.host.run_refs import LocalRunRefs
from gatewright.git.maintenance import mirrors_below
from gatewright.git.process import in_thread
from gatewright.git.refs import Source, parse_url
from gatewright.git.remote_run_refs import RemoteRunRefs

#: Below the home folder, for as long as a round lasts.
_COPIES = "branch-copies"
_STOPPED = "git_cancelled"


@dataclass(frozen=True, slots=True)
class RoundWatch:
    """``begun`` hears of each repository, ``planned`` of its plan, ``deleted`` of what became of each branch.

    ``stopped`` ends a round.
    """

    begun: Callable[[str], None] = lambda _place: None
    planned: Callable[[Sequence[BranchItem]], None] = lambda _plan: None
    deleted: Callable[[ItemOutcome[BranchItem]], None] = lambda _done: None
    stopped: Callable[[], bool] = lambda: False


def remote_source(given: str | None) -> Source | None:
    """The repository of another host that is named; None for one on this host. Raises MalformedError (``bad_url``)."""
    if given is None or ":" not in given or (find_place().here / given).exists():
        return None
    source = parse_url(given, PROTOCOLS)
    return None if source.local else source


def sources_of(given: Sequence[str]) -> tuple[tuple[str | None, Source | None], ...]:
    """The repositories that are meant, each with its source where it is on another host; None: the one that the user stands in.

    Raises MalformedError (``bad_url``; ``no_bus_identity_here`` where this process has an identity of the bus).
    """
    sources = tuple((each, remote_source(each)) for each in given or (None,))
    if any(source is not None for _, source in sources) and settings.load().nats_seed is not None:
        words = "GATEWRIGHT_NATS_SEED is set: one process could delete a change, and the record of it"
        raise MalformedError(words, code="no_bus_identity_here")
    return sources


def refuse_remote(given: Sequence[str]) -> None:
    """Raises MalformedError where a repository of another host is named."""
    if any(remote_source(each) is not None for each in given):
        words = "in repositories of other hosts a process of its own deletes branches: refs tidy --expired --repo URL"
        raise MalformedError(words, code="invalid_input")


def play_round(given: Sequence[str], watch: RoundWatch, *, yes: bool) -> RoundOutcome:
    """See ``branch_round``. SIGINT, SIGTERM and SIGHUP end it, with no copy and no git left behind: KeyboardInterrupt then."""

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
    """``branch_round`` in a thread. Once ``stop`` is set what git does is ended, and no further branch is begun.

    Raises GitError (``git_cancelled``) then.
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
        raise GitError("the round was told to end", code=_STOPPED) from None


def branch_round(given: Sequence[str], watch: RoundWatch, *, yes: bool) -> RoundOutcome:
    """One round in the repositories that are named, or in the one that the user stands in.

    The only one that cannot be looked at raises GitError or DeniedError; of several each is told in the outcome. Raises
    ConfigurationError (``nothing_expires``, ``holds_unreadable``), MalformedError (as ``sources_of``; where this host has no
    key to verify with), StoreError.
    """
    sources = sources_of(given)
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
                plan, went = _in_one(branches, evidence, days, watch, yes=yes)
        except (GitError, DeniedError) as error:
            if len(sources) == 1:
                raise
            unreached.append(ItemOutcome(name or "", code=error.reason, message=error.message))
        else:
            items += plan
            done += went
    return RoundOutcome(branches=tuple(items), expired_branches=tuple(done), unreached=tuple(unreached))


def _in_one(
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
        yield LocalRunRefs(user_checkout(repository_of(name)))
        return
    root = find_place().home.absolute() / _COPIES
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    mirrors_below(root)  # what killed processes left goes
    with tempfile.TemporaryDirectory(prefix="new-", dir=root) as folder:
        yield RemoteRunRefs(Path(folder) / "copy.git", source, access, most=settings.load().mirror_bytes)


def plan_lines(items: Sequence[BranchItem], *, carried_out: bool) -> list[str]:
    """What expires in a repository and what stays, and why, for people."""
    words = {"expire": "goes", "keep": "stays"}
    lines = [f"{words[each.action]:<6} gatewright/{each.branch.name} at {each.branch.commit} ({each.why})" for each in items]
    if any(each.action == "expire" for each in items) and not carried_out:
        lines.append("nothing was deleted; do it with --yes")
    return lines or ["no run has left a branch here"]


def left_lines(outcome: RoundOutcome) -> list[str]:
    """What was to go and did not, and what could not be looked at, for people."""
    left = [(f"gatewright/{each.item.branch.name}", each) for each in outcome.expired_branches if each.code]
    lines = [f"left {name}: {each.message} [{each.code}]" for name, each in left]
    return lines + [f"left all of {each.item}: {each.message} [{each.code}]" for each in outcome.unreached]


def result_document(outcome: RoundOutcome, *, carried_out: bool) -> dict[str, Any]:
    """The document of ``refs tidy --expired --json``."""
    return {
        "items": [{**_branch_entry(each), "action": each.action, "why": each.why} for each in outcome.branches or ()],
        "carried_out": carried_out,
        "done": [{**_branch_entry(each.item), "code": each.code, "message": each.message} for each in outcome.expired_branches],
        "unreached": [{"repository": each.item, "code": each.code, "message": each.message} for each in outcome.unreached],
    }


def _branch_entry(item: BranchItem) -> dict[str, str]:
    return {"repository": item.repository, "name": item.branch.name, "commit": item.branch.commit}
