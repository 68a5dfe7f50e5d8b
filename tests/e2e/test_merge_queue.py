"""Two runs through six processes and the merge queue of one branch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.git.repositories import Repository

WORDS = ("--exec", "python tools/edit.py 0 {paths}", "--test", "true", "--land", "queue", "--target-ref", "main")


def land(stack: Stack, target: Path, path: str) -> dict[str, Any]:
    code, result = stack.run(target, "--allow", path, *WORDS)
    assert (code, result["status"]) == (0, "SUCCESS"), result
    return result


def verify(stack: Stack, bundle: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stack.command("verify", str(bundle), *words, "--json").stdout)
    return found


def test_two_runs_land_one_after_the_other_and_their_bundles_verify(
    stack: Stack, make_project: MakeProject, tmp_path: Path
) -> None:
    project = make_project()
    repository = Repository(project, project.parent / "home")
    repository.git("checkout", "--quiet", "--detach")
    first, second = land(stack, project, "src/a.py"), land(stack, project, "src/b.py")
    history = repository.git("rev-list", "--first-parent", "main").decode().split()
    assert history[:2] == [second["commit"], first["commit"]]
    for result in (first, second):
        assert verify(stack, Path(result["bundle"]))["ok"]
        assert verify(stack, Path(result["bundle"]), "--repo", str(project))["ok"]
    copy = tmp_path / Path(first["bundle"]).name
    shutil.copytree(first["bundle"], copy)
    (copy / "queue" / "receipt.json").unlink()
    shutil.copy(Path(second["bundle"]) / "queue" / "receipt.json", copy / "queue" / "receipt.json")
    assert not verify(stack, copy)["ok"]
