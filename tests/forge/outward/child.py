"""A process that shows one phase of a scenario on a stand-in, and can be killed at any call of it."""

from __future__ import annotations

import asyncio
import sys

from tests.forge.outward.keepers import SCENARIOS, keeper_of
from tests.forge.outward.runs import board_of
from tests.forge.standin.state import ForgeState


async def show(scenario: str, phase: int, api: str, token: str) -> None:
    """Show the runs of a phase in one round of a new keeper."""
    chosen, state = SCENARIOS[scenario], ForgeState()
    chosen.prepare(state)
    runs = chosen.phases[phase](state)
    async with keeper_of(chosen.entry, "github", api, token, runs) as keeper:
        await keeper.round(board_of(*runs))


if __name__ == "__main__":
    asyncio.run(show(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
