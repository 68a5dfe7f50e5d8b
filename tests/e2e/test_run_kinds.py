"""Runs that land nothing, through a whole stack: a plan, a review of a range, a test of a commit."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.artifacts import inline_uri
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, Environment, Repository, Sharding, SourceBranch
from gatewright.run.state import Run
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, Stack, slow_request, wait_until
from tests.git.repositories import Repository as GitRepository
from tests.waiting import PATIENCE

REFS = ("for-each-ref", "--format=%(refname) %(objectname)")


def request_of(project: Path, task_type: str, **fields: object) -> RunRequest:
    request = RunRequest(
        request="look at the project", repository=Repository(url=str(project), landing="none"), requested_by="tests"
    )
    return replace(request, task_type=task_type, **fields)


def tested_request(project: Path, seconds: float) -> RunRequest:
    command = AcceptanceTest(name="check", cmd=f"python tools/check.py {seconds}", must_pass=True)
    return request_of(project, "TEST", acceptance_tests=(command,), environment=Environment(prefix=str(PREFIX)))


def review_request(project: Path, head: str) -> RunRequest:
    git = GitRepository(project, project.parent / "home").git
    base, tip = (git("rev-parse", ref).decode().strip() for ref in ("main", head))
    return request_of(
        project, "REVIEW", baseline_ref=base, source_branch=SourceBranch(name=head, head=tip, base=base, commits=1)
    )


def plan_request(project: Path) -> RunRequest:
    return request_of(
        project,
        "PLAN",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="check", cmd="python tools/check.py 0", must_pass=True),),
        sharding=Sharding(count=2),
    )


def branch(project: Path, content: str, name: str = "topic") -> None:
    repository = GitRepository(project, project.parent / "home")
    repository.git("checkout", "-q", "-b", name)
    (project / "src/a.py").write_text(content)
    repository.git("commit", "-q", "-a", "-m", "a change")
    repository.git("checkout", "-q", "main")


def finished(stack: Stack, request: RunRequest) -> Run:
    with stack.client() as client:
        run = client.wait(client.submit_request(request), timeout=SECONDS)
    assert run.sealed is not None
    verified = stack.command("verify", run.sealed.location, "--repo", str(request.repository.url))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return run


def test_a_green_commit_is_tested_and_nothing_lands(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(src__a=b"edited = True\n", src__b=b"edited = True\n")
    before = GitRepository(project, project.parent / "home").git(*REFS)
    run = finished(stack, tested_request(project, 0.0))
    assert (run.status, run.landed, run.kind.name, run.failure) == ("SUCCESS", None, "test", None)
    assert {task.role for task in run.tasks.values()} == {"pm", "testrunner"}
    assert GitRepository(project, project.parent / "home").git(*REFS) == before


def test_a_red_commit_fails_its_test_run(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, tested_request(make_project(), 0.0))
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "tests_failed")


def test_a_review_shows_what_the_rules_find(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    branch(project, "a = 2\n")
    branch(project, "<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n", "broken")
    good, bad = finished(stack, review_request(project, "topic")), finished(stack, review_request(project, "broken"))
    assert (good.status, good.landed, good.kind.name) == ("SUCCESS", None, "review")
    assert bad.failure is not None
    assert bad.failure.code == "review_failed"
    assert bad.review is not None
    assert any(each.path == "src/a.py" and each.line == 1 for each in bad.review.findings)


@pytest.mark.parametrize(("field", "code"), [("head", "ref_not_found"), ("base", "source_differs")])
def test_a_review_of_another_range_than_there_is_fails(stack: Stack, make_project: MakeProject, field: str, code: str) -> None:
    project = make_project()
    branch(project, "a = 2\n")
    request = review_request(project, "topic")
    assert request.source_branch is not None
    run = finished(stack, replace(request, source_branch=replace(request.source_branch, **{field: "a" * 40})))
    assert run.failure is not None
    assert (run.status, run.failure.code, run.candidate) == ("FAILED", code, None)


def test_a_plan_ends_with_its_parts(stack: Stack, make_project: MakeProject) -> None:
    run = finished(stack, plan_request(make_project()))
    assert (run.status, run.landed, run.kind.name, run.locks) == ("SUCCESS", None, "plan", None)
    assert run.plan is not None
    assert {path for part in run.plan.contracts for path in part.allowed_paths} == {"src/a.py", "src/b.py"}
    assert {task.role for task in run.tasks.values()} == {"pm", "techlead"}


def test_a_bundle_that_was_tampered_with_fails(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    run = finished(stack, plan_request(make_project()))
    assert run.sealed is not None
    copy = tmp_path / run.run_id
    shutil.copytree(run.sealed.location, copy)
    events = copy / "events.jsonl"
    assert b'"PLAN"' in events.read_bytes()
    events.write_bytes(events.read_bytes().replace(b'"PLAN"', b'"TEST"'))
    assert stack.command("verify", str(copy)).returncode == 1


def test_the_commands_order_runs_of_their_kind(stack: Stack, make_project: MakeProject) -> None:
    project = make_project(src__a=b"edited = True\n", src__b=b"edited = True\n")
    branch(project, "a = 2\n")
    check = "python tools/check.py 0"
    for words, kind in (
        (("test", "--env", str(PREFIX), "--", *check.split()), "test"),
        (("review-commits", "--head", "topic"), "review"),
        (("review-commits", "--range", "main..topic"), "review"),
        (("plan", "split it", "--allow", "src", "--test", check, "--shards", "2"), "plan"),
    ):
        ended = stack.command(words[0], "--json", *words[1:], cwd=project)
        result = json.loads(ended.stdout.splitlines()[-1])
        assert (ended.returncode, result["status"], result["kind"]) == (0, "SUCCESS", kind), ended.stdout + ended.stderr
    shown = stack.command("show", result["run_id"], cwd=project)
    assert "batch 1: w02  src/b.py" in shown.stdout
    assert f"run REQUEST --input {result['run_id']}" in shown.stdout
    listed = json.loads(stack.command("runs", "--json", cwd=project).stdout)["runs"]
    assert {"test", "review", "plan"} <= {each["kind"] for each in listed}


def test_a_failed_run_is_repeated_and_is_no_input(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    run = finished(stack, tested_request(project, 0.0))
    again = stack.command("run", "--again", run.run_id, "--json", cwd=project)
    result = json.loads(again.stdout.splitlines()[-1])
    assert (again.returncode, result["kind"], result["failure"]["code"]) == (1, "test", "tests_failed")
    words = ("run", "a change", "--allow", "src", "--test", "python tools/check.py 0", "--env", str(PREFIX), "--input")
    assert stack.command(*words, run.run_id, cwd=project).returncode == 2
    assert stack.command(*words, "run-unknown", cwd=project).returncode == 2


def test_a_forged_result_of_an_earlier_run_is_refused(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    earlier, forged = finished(stack, plan_request(project)), b'{"contracts": []}'
    artifact = Artifact(name=f"result:{earlier.run_id}", uri=inline_uri(forged), sha256=hashlib.sha256(forged).hexdigest())
    run = finished(stack, replace(slow_request(project, 0.0), artifacts=(artifact,)))
    assert run.failure is not None
    assert (run.status, run.failure.code, run.tasks) == ("FAILED", "result_differs", {})


@pytest.mark.long
def test_a_run_of_each_kind_survives_a_killed_gatekeeper(own_stack: Stack, make_project: MakeProject) -> None:
    """A role stands still, so that its run waits in the role's state; the gatekeeper is killed there, and the run goes on."""
    project = make_project(src__a=b"edited = True\n", src__b=b"edited = True\n")
    branch(project, "a = 2\n")
    for role, state, request in (
        ("pm", "S0", tested_request(project, 0.0)),
        ("techlead", "S1", plan_request(project)),
        ("reviewer", "S3", review_request(project, "topic")),
        ("testrunner", "S4", tested_request(project, 0.0)),
    ):
        (member,) = own_stack.members(role)
        os.kill(member.pid, signal.SIGSTOP)
        with own_stack.client() as client:
            run_id = client.submit_request(request, patience=PATIENCE)
            wait_until(lambda run_id=run_id, state=state: client.get(run_id).state == state)  # type: ignore[misc]
            assert own_stack.kill("gatekeeper") == 1
            os.kill(member.pid, signal.SIGCONT)
            run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, run.landed) == ("SUCCESS", None), run.failure
        assert run.sealed is not None
        assert own_stack.command("verify", run.sealed.location, "--repo", str(project)).returncode == 0
