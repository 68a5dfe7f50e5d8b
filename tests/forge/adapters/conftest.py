"""One stand-in forge of each kind for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forge.adapters.worlds import KINDS
from tests.forge.standin.server import Standin


@pytest.fixture(scope="module", params=KINDS)
def standin(request: pytest.FixtureRequest) -> Iterator[Standin]:
    with Standin(request.param) as running:
        yield running
