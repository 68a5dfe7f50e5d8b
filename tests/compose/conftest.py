"""One system in containers for the tests that use it; skipped, with the reason, where no container can be run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.deployment import BASE, CLUSTER, Deployment, deployed
from tests.compose.engine import missing

#: Seconds for one test, with the image that is built and the system that is started for the first of them.
LONGEST = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("compose"):
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def engine_here() -> None:
    cause = missing()
    if cause:
        pytest.skip(f"no containers here: {cause}")


@pytest.fixture(scope="module")
def system(engine_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """NATS and the six services, from a clean checkout."""
    with deployed(tmp_path_factory.mktemp("system")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def cluster(engine_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The same with three NATS servers."""
    with deployed(tmp_path_factory.mktemp("cluster"), BASE, CLUSTER, servers=3) as deployment:
        yield deployment
