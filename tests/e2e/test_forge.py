"""`gatewright forge` beside a running system: a run on a branch becomes a request with a check and one comment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import Forges, codec
from gatewright.contracts.forge_policy import ForgeEntry, SecretReference
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.forge.standin.server import Standin
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE, wait_until

EDIT = ("--allow", "src", "--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/check.py 0")


@pytest.fixture
def forge() -> Iterator[Standin]:
    with Standin("github") as started:
        yield started


def settings_of(forge: Standin, project: Path, folder: Path) -> dict[str, str]:
    """Variables of a policy folder with an entry for ``project``, and of the token."""
    folder.mkdir()
    entry = ForgeEntry(
        name="shop",
        repository=str(project),
        kind="github",
        api=forge.api,
        project=forge.project,
        token=SecretReference(environment="SHOP_TOKEN"),
        target="main",
        requests=True,
    )
    (folder / "forges.json").write_bytes(codec.encode(Forges(version="1", forges=(entry,))))
    return {"GATEWRIGHT_POLICIES": str(folder), "SHOP_TOKEN": forge.token}


def landed_run(stack: Stack, project: Path, forge: Standin) -> dict[str, Any]:
    """A run on a branch of its own, which the forge has, too."""
    code, result = stack.run(project, *EDIT)
    assert code == 0, result
    forge.state.push(result["branch"], result["commit"])
    return result


def assert_shown(forge: Standin, result: dict[str, Any]) -> None:
    (request,) = forge.state.requests.values()
    assert (request.head, request.base, request.state) == (result["commit"], "main", "open")
    (note,) = forge.state.notes
    assert f"gatewright verify {result['run_id']}" in note.body
    assert {(status.commit, status.state) for status in forge.state.statuses} == {(result["commit"], "success")}


def test_a_landed_run_is_shown_once(stack: Stack, make_project: MakeProject, forge: Standin, tmp_path: Path) -> None:
    project = make_project()
    result = landed_run(stack, project, forge)
    variables = settings_of(forge, project, tmp_path / "policies")
    for calls in (["OpenRequest", "WriteComment", "SetCheck"], []):
        finished = stack.command("forge", "--once", "--json", extra=variables)
        assert finished.returncode == 0, finished.stderr
        (shown,) = json.loads(finished.stdout)["forges"]
        (run,) = shown["runs"]
        assert (shown["name"], run["run_id"]) == ("shop", result["run_id"])
        assert [call["call"] for call in run["calls"]] == calls
        assert forge.token not in finished.stdout + finished.stderr
    assert_shown(forge, result)


@pytest.mark.long
def test_the_process_follows_the_ledger_until_it_is_stopped(
    stack: Stack, make_project: MakeProject, forge: Standin, tmp_path: Path
) -> None:
    project = make_project()
    variables = stack.environment | settings_of(forge, project, tmp_path / "policies")
    argv = [sys.executable, "-m", "gatewright.app.cli.main", "forge"]
    process = subprocess.Popen(argv, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True)
    with killed_on_failure(process):
        result = landed_run(stack, project, forge)
        assert wait_until(lambda: bool(forge.state.statuses) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    assert "forge_stopped" in log
    assert forge.token not in log
    assert_shown(forge, result)
