"""Whole runs through six processes and a real NATS server, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatewright.reasons import family_of
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.git.repositories import Repository
from tests.series import series

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"


def refs(project: Path) -> list[str]:
    listed = Repository(project, project.parent / "home").git("for-each-ref", "--format=%(refname)")
    return listed.decode().split()


def events(result: dict[str, Any]) -> list[dict[str, Any]]:
    lines = (Path(result["bundle"]) / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_request_becomes_a_landed_and_verified_change(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    code, result = stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK, process=True)
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(project, project.parent / "home")
    assert repository.head(result["branch"]) == result["commit"]
    assert repository.git("rev-parse", f"{result['commit']}^{{tree}}").decode().strip() == result["tree"]
    assert repository.git("show", f"{result['branch']}:src/a.py") == b"a = 1\nedited = True\n"
    assert b"Gatewright-Run: " + result["run_id"].encode() in repository.git("log", "-1", "--format=%B", result["branch"])
    assert repository.git("status", "--porcelain") == b""
    verified = stack.process("verify", result["bundle"], "--json")
    assert verified.returncode == 0, verified.stdout


def test_the_six_roles_are_six_connections(stack: Stack) -> None:
    names = stack.connections()
    for role in ("pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper"):
        assert role in names
    pids = [member.pid for member in stack.state.members]
    assert len(set(pids)) == len(pids) >= 7


#: What a run is refused for, and the words that lead there.
REFUSED = {
    "tests_failed": ("--exec", EDIT, "--test", "python tools/edit.py"),
    "path_out_of_scope": ("--exec", "python tools/stray.py", "--test", CHECK),
    "review_failed": ("--exec", "python tools/markers.py", "--test", CHECK),
    "command_not_allowed": ("--exec", EDIT, "--test", "bash tools/check.sh"),
    "executor_failed": ("--exec", "python tools/check.py 0", "--test", CHECK),
    "empty_diff": ("--exec", "python tools/edit.py 0 README.none", "--test", CHECK),
}


@pytest.mark.parametrize("code", series(REFUSED, "tests_failed", "path_out_of_scope", "review_failed"))
def test_a_refused_run_exits_1_with_reason_and_bundle(code: str, stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    before = refs(project)
    exit_code, result = stack.run(project, "--allow", "src", *REFUSED[code])
    assert (exit_code, result["status"]) == (1, "FAILED")
    assert result["failure"]["code"] == code
    assert (result["branch"], result["commit"]) == (None, None)
    assert refs(project) == before
    assert stack.command("verify", result["bundle"]).returncode == 0
    assert events(result)[-1]["event_type"] == "run_finished"
    reports = [json.loads(file.read_bytes()) for file in (Path(result["bundle"]) / "reports" / "gates").iterdir()]
    assert reports
    assert all(report.get("family") == (None if report["code"] == "ok" else family_of(report["code"])) for report in reports)


def test_two_workers_share_the_tasks_of_a_run(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    words = ("--allow", "src", "--exec", "python tools/edit.py 1 {paths}", "--test", CHECK, "--shards", "2")
    code, result = stack.run(project, *words)
    assert code == 0, result
    finished = [event for event in events(result) if event["event_type"] == "task_finished"]
    producers = {event["payload"]["result"]["producer"]["agent_id"] for event in finished}
    assert len(finished) == len(producers) == 2


@pytest.mark.long
def test_failing_tests_are_fixed_by_the_second_answer(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    half = "python tools/edit.py 0 src/a.py"
    code, result = stack.run(project, "--allow", "src", "--exec", half, "--exec", EDIT, "--test", CHECK)
    assert (code, result["status"]) == (0, "SUCCESS")
    types = [event["event_type"] for event in events(result)]
    assert types.count("fix_ordered") == 1
    assert types.count("tests_received") == 2


def test_a_patch_and_a_reply_do_the_same_as_a_command(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project()
    reply = tmp_path / "reply.md"
    reply.write_text("Update file `src/a.py`:\n```python\na = 1\nedited = True\n```\n")
    code, by_reply = stack.run(project, "--allow", "src", "--reply", str(reply), "--test", "true")
    assert code == 0, by_reply
    patch = tmp_path / "change.diff"
    patch.write_bytes(Repository(project, tmp_path).git("diff", "main", by_reply["branch"]))
    code, by_patch = stack.run(project, "--allow", "src", "--patch", str(patch), "--test", "true")
    assert code == 0, by_patch
    assert by_patch["tree"] == by_reply["tree"]


def test_landing_on_a_target_is_a_compare_and_swap(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    repository = Repository(project, project.parent / "home")
    repository.git("branch", "release")
    words = ("--allow", "src", "--exec", EDIT, "--test", CHECK, "--land", "target", "--target-ref")
    code, result = stack.run(project, *words, "refs/heads/release")
    assert (code, result["commit"]) == (0, repository.head("release"))
    code, result = stack.run(project, *words, "refs/heads/release")
    assert (code, result["failure"]["code"]) == (2, "target_elsewhere")
    code, result = stack.run(project, *words, "refs/heads/main")
    assert (code, result["failure"]["code"]) == (1, "target_checked_out")
    assert repository.git("status", "--porcelain") == b""


def test_nothing_is_landed_when_nothing_is_to_be(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    before = refs(project)
    code, result = stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK, "--land", "none")
    assert (code, result["status"], result["branch"]) == (0, "SUCCESS", None)
    assert refs(project) == before


def test_bad_input_exits_2_and_names_what_is_missing(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    finished = stack.command("run", "a change", "--exec", EDIT, cwd=project)
    assert finished.returncode == 2
    assert "--allow" in finished.stderr
    assert "--test" in finished.stderr


def test_a_ref_that_is_not_there_is_refused(stack: Stack, make_project: MakeProject) -> None:
    """The command line looks into a folder of this host itself, so an address is given."""
    project = make_project()
    address = f"file://{project}"
    words = ("--repo", address, "--allow", "src", "--exec", EDIT, "--test", CHECK, "--ref", "no-such-branch")
    code, result = stack.run(project, *words)
    assert code in {1, 2}
    assert result["failure"]["code"] == "ref_not_found"
