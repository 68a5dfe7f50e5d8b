"""A project with requests in every state, and an adapter that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, get_args

from gatewright.app.forge.adapters import connect_forge
from gatewright.app.forge.http import HttpLimits
from gatewright.app.forge.port import Forge
from gatewright.contracts.forge_policy import ForgeKind
from tests.forge.standin.server import Standin
from tests.forge.standin.state import ForgeState, commit_id

KINDS: Final[tuple[ForgeKind, ...]] = get_args(ForgeKind)
#: The time of the forge's clock and of the adapter's: 2026-01-01 00:00 UTC.
NOW: Final = 1_767_225_600.0
RUN_HEAD: Final = commit_id("the change of a run")
FEATURE, PATCH, CLOSED, MERGED = 1, 2, 3, 4


@dataclass(frozen=True)
class World:
    """``forge``: the adapter; ``standin``: what it speaks to."""

    kind: ForgeKind
    standin: Standin
    forge: Forge

    @property
    def state(self) -> ForgeState:
        return self.standin.state


def fill(state: ForgeState) -> None:
    """1: open, of a member. 2: open, from a fork. 3: closed. 4: merged. The branch ``run-1`` has no request."""
    state.push("run-1", RUN_HEAD)
    state.open_by("ana", "feature", title="Add a feature")
    state.open_by("ben", "patch-1", fork=True)
    state.open_by("gatewright-bot", "old")
    state.close(CLOSED)
    state.open_by("gatewright-bot", "done")
    state.merge(MERGED, None)


@asynccontextmanager
async def world_of(standin: Standin, *, seconds: float = 30.0, token: str | None = None) -> AsyncIterator[World]:
    """Yield a connected adapter and a filled project; the server is that of earlier tests."""
    fill(standin.state)
    limits = HttpLimits(seconds=seconds, most_bytes=1 << 20, pages=5)
    used = standin.token if token is None else token
    try:
        async with connect_forge(
            standin.kind, standin.api, standin.project, lambda: used, limits=limits, now=lambda: NOW
        ) as forge:
            yield World(standin.kind, standin, forge)
    finally:
        standin.reset()
