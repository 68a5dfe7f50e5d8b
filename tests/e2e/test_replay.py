"""Runs of the real stack told again, made again from the real ledger, and done again."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, slow_request
from tests.evidence.tampering import files_of
from tests.waiting import PATIENCE

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"


def contents(bundle: Path) -> dict[str, bytes]:
    return {path: (bundle / path).read_bytes() for path in files_of(bundle)}


def lose(bundle: Path) -> dict[str, bytes]:
    """Move the bundle out of the way; what it held."""
    held = contents(bundle)
    bundle.rename(bundle.parent.parent / f"lost-{bundle.name}")
    return held


def document(stack: Stack, *words: str, code: int = 0) -> dict[str, Any]:
    finished = stack.command(*words, "--json")
    assert finished.returncode == code, finished.stdout + finished.stderr
    told: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(
    "test", [CHECK, pytest.param("python tools/check.py none", marks=pytest.mark.long)], ids=["successful", "failed"]
)
def test_a_lost_bundle_comes_back_from_the_ledger_byte_for_byte(stack: Stack, make_project: MakeProject, test: str) -> None:
    _, result = stack.run(make_project(), "--allow", "src", "--exec", EDIT, "--test", test)
    bundle = Path(result["bundle"])
    held = lose(bundle)
    assert document(stack, "replay", "--from-ledger", result["run_id"])["location"] == str(bundle)
    assert contents(bundle) == held
    assert stack.command("verify", str(bundle)).returncode == 0
    assert document(stack, "replay", "--from-ledger", result["run_id"], code=2)["error"]["code"] == "bundle_exists"


@pytest.mark.long
def test_so_does_that_of_an_aborted_run(stack: Stack, make_project: MakeProject) -> None:
    with stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 20.0))
        while client.get(run_id).state != "S2":
            time.sleep(0.02)
        client.abort(run_id, "changed my mind")
        run = client.wait(run_id, timeout=PATIENCE)
    assert run.status == "ABORTED"
    assert run.sealed
    held = lose(Path(run.sealed.location))
    document(stack, "replay", "--from-ledger", run_id)
    assert contents(Path(run.sealed.location)) == held


def test_a_run_is_replayed_from_its_bundle(stack: Stack, make_project: MakeProject) -> None:
    _, result = stack.run(make_project(), "--allow", "src", "--exec", EDIT, "--test", CHECK)
    told = document(stack, "replay", result["bundle"])
    assert told["ok"]
    assert [step["state"] for step in told["steps"] if step["entered"]] == ["S0", "S1", "S2", "S3", "S4", "S6"]
    assert set(told["derived"]) <= set(contents(Path(result["bundle"])))


@pytest.mark.long
def test_a_codemod_done_again_gives_the_same_and_lands_nothing(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    _, result = stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    report = document(stack, "replay", "--reexecute", result["bundle"])
    assert (report["status"], report["hard_diffs"]) == ("pass", [])
    (written,) = (stack.home / "reexecutions").glob(f"{result['run_id']}--*.json")
    assert json.loads(written.read_bytes()) == report
    second = document(stack, "show", written.stem.partition("--")[2])["result"]
    assert (second["status"], second["branch"], second["tree"]) == ("SUCCESS", None, result["tree"])


@pytest.mark.long
def test_a_codemod_that_does_something_else_the_second_time_fails(stack: Stack, make_project: MakeProject) -> None:
    fickle = b"import pathlib, time\npathlib.Path('src/a.py').write_text(f'edited = {time.time()}\\n')\n"
    project = make_project(tools__fickle=fickle)
    _, result = stack.run(project, "--allow", "src/a.py", "--exec", "python tools/fickle.py", "--test", "test -f src/a.py")
    assert result["status"] == "SUCCESS", result["failure"]
    report = document(stack, "replay", "--reexecute", result["bundle"], code=1)
    assert {difference["key"] for difference in report["hard_diffs"]} == {"candidate.tree", "patch.diff"}


def forget_baseline(project: Path, result: dict[str, Any]) -> None:
    """Rewrite the project's history and have git throw away what no ref holds any more."""

    def git(*words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(("git", *identity, *words), cwd=project, check=True, capture_output=True)

    git("update-ref", "-d", f"refs/heads/gatewright/{result['run_id']}")
    git("commit", "--quiet", "--amend", "-m", "another history")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "--quiet", "--prune=now")


@pytest.mark.long
def test_a_collected_baseline_comes_from_a_mirror_or_is_reported(own_stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    _, result = own_stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    forget_baseline(project, result)
    report = document(own_stack, "replay", "--reexecute", result["bundle"])
    assert (report["status"], report["hard_diffs"]) == ("pass", [])
    for mirrors in own_stack.home.glob("*/mirrors"):
        shutil.rmtree(mirrors)
    error = document(own_stack, "replay", "--reexecute", result["bundle"], code=2)["error"]
    assert error["code"] == "baseline_missing"
    assert "--repo" in error["message"]


def test_verify_asks_the_repository(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    _, result = stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert document(stack, "verify", result["bundle"], "--repo", str(project))["checked"][-1] == "8 repository"
    elsewhere = stack.command("verify", result["bundle"], "--repo", str(stack.home.parent))
    assert elsewhere.returncode == 1
