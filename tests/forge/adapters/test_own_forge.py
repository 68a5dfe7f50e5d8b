"""Your own forge, where variables name it: GATEWRIGHT_TEST_FORGE is ``KIND API PROJECT COMMIT``, and its _TOKEN is the token.

It sets one check on that commit, and reads requests and checks. Stand-ins play all other tests.
"""

from __future__ import annotations

import os
from typing import cast

import pytest

from gatewright.app.forge.adapters import connect_forge
from gatewright.app.forge.port import Check, CheckState
from gatewright.contracts.forge_policy import ForgeKind

# Read here: no test sees variables of this prefix.
NAMED = os.environ.get("GATEWRIGHT_TEST_FORGE", "").split()
TOKEN = os.environ.get("GATEWRIGHT_TEST_FORGE_TOKEN", "")


@pytest.mark.skipif(len(NAMED) != 4, reason="GATEWRIGHT_TEST_FORGE names no forge of yours")
async def test_a_check_is_set_and_read_on_a_real_forge() -> None:
    kind, api, project, commit = NAMED
    async with connect_forge(cast(ForgeKind, kind), api, project, lambda: TOKEN) as forge:
        await forge.set_check("gatewright-test", Check(commit, CheckState.SUCCESS, "a test of the adapter"))
        found = await forge.checks(commit)
        numbers = [request.number async for request in forge.open_requests()]
        requests = [await forge.request(number) for number in numbers[:3]]
    assert found["gatewright-test"].state is CheckState.SUCCESS
    assert [request.number for request in requests if request is not None] == numbers[:3]
