"""A stack whose volume fills up under its work: nothing fails for it, it says so, and with room again all goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import FILES
from tests.faults.small_volume import MIB, seen_on_volume
from tests.git.repositories import MakeRepository


@pytest.fixture
def project(make_repository: MakeRepository) -> Path:
    return make_repository("project", files=FILES).path


@pytest.mark.long
def test_every_accepted_run_waits_for_space_and_then_ends(project: Path, tmp_path: Path) -> None:
    seen = seen_on_volume(tmp_path / "volume", 300 * MIB, project, 8)
    print(seen)  # noqa: T201 - pytest shows it
    assert seen.ends == {"SUCCESS": seen.accepted}
    assert "write error" in seen.full_fault
    assert any(line.startswith("disk: ") for line in seen.full_health)
    assert "open runs wait: " in seen.listed_while_full
    assert seen.refused_while_full == "disk_full"
    assert (seen.after_health, seen.after_fault) == ("ok\n", "")
    assert seen.server_restarts == 1
