"""What tests do to the files of a submodule, and when they see no history."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.git.mirror import Mirrors
from gatewright.services.testrunner.edits import find_edits
from gatewright.services.testrunner.handler import make_handler
from gatewright.services.testrunner.settings import Settings
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces
from tests.workspace.linked_repositories import add_submodule, new_repository


async def test_edited_file_of_a_submodule_is_noted(tmp_path: Path) -> None:
    library, outer = new_repository(tmp_path / "library"), new_repository(tmp_path / "outer")
    library.commit({"lib.py": b"one\n", "other.py": b"two\n"})
    add_submodule(outer, library, "vendor/lib")
    mirror = await Mirrors(tmp_path / "mirrors").open(outer.url)
    commit = await mirror.resolve("HEAD")
    tree = await mirror.tree_of(commit)
    async with Workspaces(tmp_path / "workspaces", overlay=False).open(mirror, commit) as workspace:
        (workspace.upper / "vendor/lib/lib.py").write_bytes(b"forged\n")
        (workspace.upper / "vendor/lib/built.o").write_bytes(b"built\n")
        edits = await find_edits(RebuiltCandidate(mirror, commit, tree, tree), workspace)
    assert edits.note == b"vendor/lib/lib.py\n"


@pytest.mark.parametrize("policy", [True, False])
async def test_tests_see_no_history_under_a_transfer_policy(tmp_path: Path, policy: bool) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/repositories.json").write_text('{"version": "1", "repositories": []}')
    if policy:
        (tmp_path / "policies/transfers.json").write_text("{}")
    repository = new_repository(tmp_path / "repository")
    commit = repository.commit({"a": b"a\n"})
    runner = make_handler(Settings(home=tmp_path / "home", policies=tmp_path / "policies", sandbox="none"))
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    async with runner._workspaces.open(mirror, commit) as workspace:
        assert (workspace.history is None) == policy
