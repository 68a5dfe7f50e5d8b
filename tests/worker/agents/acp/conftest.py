"""Tests of what must be so in every version of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker.agents.acp.played_agent import SPOKEN


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def each_version(request: pytest.FixtureRequest) -> Iterator[None]:
    """Conversations are held in version 1, and in version 2."""
    token = SPOKEN.set(request.param)
    yield
    SPOKEN.reset(token)
