"""Landed runs that further runs revert, through six processes: on a branch, a target and a merge queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.git.repositories import Repository

EDIT = ("--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/fine.py")
#: Succeeds before and after a revert.
FINE = b"import pathlib\nassert pathlib.Path('src/a.py').read_text()\n"
#: Options of the first run, and the branch that it and its revert land on; None: a branch of each.
LANDINGS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "branch": ((), None),
    "target": (("--land", "target", "--target-ref", "main"), "main"),
    "queue": (("--land", "queue", "--target-ref", "main"), "main"),
}


def revert(stack: Stack, project: Path, run_id: str, *words: str) -> tuple[int, dict[str, Any]]:
    finished = stack.command("revert", run_id, "--json", *words, cwd=project)
    assert finished.stdout, finished.stderr
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return finished.returncode, result


def merge(repository: Repository, result: dict[str, Any]) -> None:
    """Merge a branch of its own into the checkout, as its owner would; a target has the commit already."""
    if result["branch"] != "main":
        repository.git("merge", "--quiet", "--ff-only", result["branch"])


def tree_of(repository: Repository, name: str) -> str:
    return repository.git("rev-parse", f"{name}^{{tree}}").decode().strip()


def detached(make_project: MakeProject) -> Repository:
    project = make_project(tools__fine=FINE)
    repository = Repository(project, project.parent / "home")
    repository.git("checkout", "--quiet", "--detach")
    return repository


@pytest.mark.every_case
@pytest.mark.parametrize("landing", LANDINGS)
def test_a_revert_and_its_revert_land_as_the_run_did(stack: Stack, make_project: MakeProject, landing: str) -> None:
    repository = detached(make_project)
    project = repository.path
    words, branch = LANDINGS[landing]
    before = tree_of(repository, "main")
    code, first = stack.run(project, "--allow", "src/a.py", *EDIT, *words)
    assert (code, first["status"]) == (0, "SUCCESS"), first
    after = tree_of(repository, first["commit"])
    merge(repository, first)
    code, second = revert(stack, project, first["run_id"], "--reason", "it was too early")
    assert (code, second["status"]) == (0, "SUCCESS"), second["failure"]
    assert second["branch"] == (branch or f"gatewright/{second['run_id']}")
    assert tree_of(repository, second["commit"]) == before
    message = repository.git("log", "-1", "--format=%B", second["commit"]).decode()
    assert message.startswith("Revert: a change\n\n")
    assert f"Gatewright-Reverts: {first['run_id']}\n" in message
    contract = json.loads((Path(second["bundle"]) / "contract.json").read_text())
    assert contract["allowed_paths"] == ["src/a.py"]
    assert contract["reverts"] == {"run_id": first["run_id"], "commit": first["commit"]}
    assert contract["inputs"]["spec"].endswith("it was too early")
    checked = stack.command("verify", second["bundle"], "--repo", str(project), "--json")
    assert json.loads(checked.stdout)["ok"], checked.stdout
    merge(repository, second)
    code, third = revert(stack, project, second["run_id"])
    assert (code, third["status"]) == (0, "SUCCESS"), third
    assert tree_of(repository, third["commit"]) == after


def test_a_revert_in_the_way_of_a_later_change_names_it(stack: Stack, make_project: MakeProject) -> None:
    repository = detached(make_project)
    words, _ = LANDINGS["target"]
    _, first = stack.run(repository.path, "--allow", "src/a.py", *EDIT, *words)
    _, second = stack.run(repository.path, "--allow", "src/a.py", *EDIT, *words, "--ref", "main")
    assert second["status"] == "SUCCESS", second
    code, refused = revert(stack, repository.path, first["run_id"])
    assert (code, refused["failure"]["code"]) == (2, "revert_conflict")
    assert f"src/a.py ({second['commit'][:12]})" in refused["failure"]["message"]


def test_a_run_that_failed_or_was_not_merged_is_not_reverted(stack: Stack, make_project: MakeProject) -> None:
    repository = detached(make_project)
    _, failed = stack.run(repository.path, "--allow", "src/a.py", "--exec", "python tools/stray.py", "--test", "true")
    code, refused = revert(stack, repository.path, failed["run_id"])
    assert (code, refused["failure"]["code"]) == (2, "nothing_landed")
    _, landed = stack.run(repository.path, "--allow", "src/a.py", *EDIT)
    for branch in ((), ("--target-ref", "main")):
        code, refused = revert(stack, repository.path, landed["run_id"], *branch)
        assert (code, refused["failure"]["code"]) == (2, "revert_not_on_target")
