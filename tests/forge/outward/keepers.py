"""Keepers of a stand-in forge, and scenarios of recorded runs on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from gatewright.app.forge.adapters import connect_forge
from gatewright.app.forge.http import HttpLimits
from gatewright.app.forge.keeper import ForgeKeeper, JudgeRequests, KeeperSettings
from gatewright.app.forge.metrics import ForgeMetrics
from gatewright.clock import SystemClock
from gatewright.contracts.forge_policy import ForgeEntry, ForgeKind
from gatewright.run.history import FollowedRun
from gatewright.telemetry.logs import make_logger
from tests.evidence.recorded_runs import COMMIT, GitFacts
from tests.forge.outward.runs import HEAD, PUBLISHER, ForgeRun, entry_with
from tests.forge.standin.state import ForgeState

#: Recorded runs are old.
EVER = timedelta(days=36_500)
SETTINGS = KeeperSettings(poll=0.0, recheck=0.0, look_back=EVER, publisher=PUBLISHER)


@contextlib.asynccontextmanager
async def keeper_of(
    entry: ForgeEntry,
    kind: ForgeKind,
    api: str,
    token: str,
    runs: Sequence[ForgeRun],
    *,
    judge: JudgeRequests | None = None,
    metrics: ForgeMetrics | None = None,
    limits: HttpLimits | None = None,
) -> AsyncIterator[ForgeKeeper]:
    """Yield a keeper that knows nothing of earlier ones."""
    pasts = {run.run_id: run for run in runs}

    async def read_run(run_id: str) -> FollowedRun | None:
        return pasts[run_id].past

    metrics = metrics or ForgeMetrics([entry.name])
    log = make_logger(level="error")
    async with connect_forge(kind, api, "acme/shop", lambda: token, limits=limits) as forge:
        yield ForgeKeeper(entry, forge, read_run, metrics.of(entry.name), SETTINGS, SystemClock(), log, judge)


@dataclass(frozen=True)
class Scenario:
    """``prepare`` makes what people did at the forge; ``phases`` are the runs as the ledger has them, one after another."""

    entry: ForgeEntry
    prepare: Callable[[ForgeState], None]
    phases: tuple[Callable[[ForgeState], list[ForgeRun]], ...]


def _push_branch(state: ForgeState) -> None:
    state.push(f"gatewright/{ForgeRun(key='own').run_id}", COMMIT)


def _open_request(state: ForgeState) -> None:
    state.push("topic", HEAD)
    state.open_by("ana", "topic")
    state.push("landed", COMMIT)


def _judged(state: ForgeState) -> ForgeRun:
    return ForgeRun(key="judged", number=1, git=GitFacts(tree=state.tree_id(HEAD)))


SCENARIOS = {
    "own branch": Scenario(
        entry_with(),
        _push_branch,
        (lambda _s: [ForgeRun(key="own").succeed(sealed=False)], lambda _s: [ForgeRun(key="own").succeed()]),
    ),
    "judged": Scenario(
        entry_with(), _open_request, (lambda s: [_judged(s).begin()], lambda s: [_judged(s).succeed(mode="none", ref="")])
    ),
    "failed": Scenario(entry_with(), _open_request, (lambda s: [_judged(s).begin()], lambda s: [_judged(s).fail()])),
    "merged by the forge": Scenario(
        entry_with(merge="forge"),
        _open_request,
        (lambda s: [_judged(s).begin()], lambda s: [_judged(s).succeed(mode="none", ref="")]),
    ),
    "landed by the gatekeeper": Scenario(
        entry_with(merge="gatekeeper", landing="target"),
        _open_request,
        (lambda s: [_judged(s).begin()], lambda s: [_judged(s).succeed(mode="target", ref="refs/heads/main")]),
    ),
}


def facts(state: ForgeState) -> dict[str, object]:
    """What people see at the forge: requests, comments, and the newest check of each commit."""
    newest = {(each.commit, each.name): (each.state, each.summary) for each in state.statuses}
    requests = {each.number: (each.head, each.state, each.title) for each in state.requests.values()}
    return {"requests": requests, "notes": [(each.number, each.body) for each in state.notes], "checks": newest}


def of_kind(entry: ForgeEntry, kind: ForgeKind) -> ForgeEntry:
    return replace(entry, kind=kind)
