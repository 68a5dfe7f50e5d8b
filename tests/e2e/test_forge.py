"""`gatewright forge` beside a running system: a run on a branch becomes a request with a check and one comment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import Forges, codec
from gatewright.contracts.forge_policy import ForgeEntry, JudgeRule, SecretReference
from gatewright.contracts.vocabulary import AcceptanceTest, Environment
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, Stack, running_stack
from tests.forge.standin.server import Standin
from tests.git.repositories import Repository
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE, wait_until

EDIT = ("--allow", "src", "--exec", "python tools/edit.py 0 {paths}", "--test", "python tools/check.py 0")


@pytest.fixture
def forge() -> Iterator[Standin]:
    with Standin("github") as started:
        yield started


def settings_of(forge: Standin, project: Path, folder: Path, judge: JudgeRule | None = None) -> dict[str, str]:
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
        judge=judge,
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


@dataclass(frozen=True)
class ForgeStack(Stack):
    """A stack whose gatekeeper knows the publisher of the process."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"GATEWRIGHT_PUBLISHERS": "forge"}


@pytest.mark.long
def test_a_pull_request_is_judged_on_its_exact_head(make_project: MakeProject, forge: Standin, tmp_path: Path) -> None:
    repository = Repository(make_project(), tmp_path / "git-home")
    main = repository.git("rev-parse", "main").decode().strip()
    repository.git("checkout", "--quiet", "--detach")
    head = repository.commit({"src/a.py": b"a = 1\nedited = True\n", "src/b.py": b"b = 1\nedited = True\n"})
    repository.git("checkout", "--quiet", main)
    repository.git("update-ref", "refs/pull/1/head", head)
    forge.state.push("topic", head)
    assert forge.state.open_by("ana", "topic", title="@all please <b>merge</b>").number == 1
    test = AcceptanceTest(name="check", cmd="python tools/check.py 0", must_pass=True)
    rule = JudgeRule(allowed_paths=("src",), tests=(test,), environment=Environment(prefix=str(PREFIX)))
    variables = settings_of(forge, repository.path, tmp_path / "policies", judge=rule)
    stack = ForgeStack(tmp_path / "home")
    made = stack.command("keys", "bus", "--publisher", "forge")
    assert made.returncode == 0, made.stdout + made.stderr
    with running_stack(stack.home, workers=1, stack=stack):
        ordered = round_of(stack, variables)
        (request,) = ordered["requests"]
        assert (request["outcome"], request["number"], request["head"]) == ("Ordered", 1, head)
        with stack.client() as client:
            status = client.ended(request["run_id"], timeout=PATIENCE)
        assert status.status == "SUCCESS", status
        for _ in range(2):
            shown = round_of(stack, variables)
    assert [each["outcome"] for each in shown["requests"]] == ["Skipped"]
    assert {(each.commit, each.state) for each in forge.state.statuses[-1:]} == {(head, "success")}
    (note,) = forge.state.notes_of(1)
    assert f"Judged head: `{head}`" in note.body


def round_of(stack: Stack, variables: dict[str, str]) -> dict[str, Any]:
    """What one comparison did about the entry."""
    finished = stack.command("forge", "--once", "--json", extra=variables)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (shown,) = json.loads(finished.stdout)["forges"]
    assert isinstance(shown, dict)
    return shown
