"""Real package managers and registries on this host. ``make registries`` installs what the system lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git.access.servers import make_certificate
from tests.registries.servers import INSTALLATION, Files, maven_central
from tests.sandbox.conftest import place, run, sandbox

__all__ = ["place", "run", "sandbox"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.registries)


@pytest.fixture(autouse=True)
def installation() -> Path:
    """Where the registries are installed."""
    assert (INSTALLATION / ".ready").exists(), "the registries are not installed: make registries"
    return INSTALLATION


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """A Maven repository with the artifacts of Debian, over TLS with an authority that this process trusts."""
    certificate = make_certificate(tmp_path / "certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with maven_central(certificate) as files:
        yield files
