"""kill -9 in the middle of a run: it still ends, once, in what it would have ended in."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gatewright.client.sync import SyncClient
from gatewright.run.state import Run
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, Stack, slow_request, wait_until
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

#: Runs until a reviewer is killed between taking its task and answering it.
MOST_TRIES = 10

#: The state in which each role is at work.
AT_WORK = {"worker": "S2", "reviewer": "S3", "testrunner": "S4", "gatekeeper": "S2", "pm": "S0", "techlead": "S1"}


def start(client: SyncClient, project: Path) -> str:
    return client.submit_request(slow_request(project, 1.0), patience=PATIENCE)


def assert_landed_once(run: Run, project: Path, stack: Stack) -> None:
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    assert run.landed is not None
    repository = Repository(project, project.parent / "home")
    assert repository.head(run.landed.ref) == run.landed.commit
    assert repository.git("rev-list", "--count", f"main..{run.landed.ref}").strip() == b"1"
    assert stack.command("verify", run.sealed.location).returncode == 0


@pytest.mark.parametrize(
    ("role", "fixture"),
    # Workers are killed in the shared stack, whose other tests do not notice.
    [("worker", "stack"), ("testrunner", "own_stack"), ("gatekeeper", "own_stack")],
)
@pytest.mark.long
def test_a_role_killed_at_its_work_does_not_lose_the_run(
    role: str, fixture: str, request: pytest.FixtureRequest, make_project: MakeProject
) -> None:
    project, stack = make_project(), request.getfixturevalue(fixture)
    with stack.client() as client:
        run_id = start(client, project)
        wait_until(lambda: client.get(run_id).state == AT_WORK[role])
        assert stack.kill(role) >= 1
        run = client.wait(run_id, timeout=SECONDS)
    assert_landed_once(run, project, stack)
    assert stack.members(role)[0].restarts >= 1


@pytest.mark.long
def test_a_reviewer_killed_during_its_task_loses_no_run(own_stack: Stack, make_project: MakeProject) -> None:
    """A review takes a moment, so the reviewer stands still until its task lies there, and is killed once it has taken it."""
    project = make_project()
    with own_stack.client() as client:
        for _ in range(MOST_TRIES):
            (reviewer,) = own_stack.members("reviewer")
            os.kill(reviewer.pid, signal.SIGSTOP)
            run_id = client.submit_request(slow_request(project, 0.0), patience=PATIENCE)
            wait_until(lambda run_id=run_id: client.get(run_id).state == "S3")  # type: ignore[misc]
            os.kill(reviewer.pid, signal.SIGCONT)
            while not (in_hand := own_stack.in_hand("reviewer")) and client.get(run_id).state == "S3":
                continue
            os.kill(reviewer.pid, signal.SIGKILL)
            run = client.wait(run_id, timeout=SECONDS)
            assert_landed_once(run, project, own_stack)
            if in_hand:
                return
            wait_until(lambda pid=reviewer.pid: own_stack.members("reviewer")[0].pid != pid)  # type: ignore[misc]
    pytest.fail(f"the reviewer was never caught with its task in {MOST_TRIES} tries")


@pytest.mark.long
@pytest.mark.parametrize("role", ["pm", "techlead", "reviewer"])
def test_a_role_that_is_away_when_its_task_comes_finds_it_later(role: str, own_stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    with own_stack.client() as client:
        own_stack.kill(role)
        run = client.wait(start(client, project), timeout=SECONDS)
    assert_landed_once(run, project, own_stack)


def test_an_abort_reaches_a_task_that_is_being_done(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    with stack.client() as client:
        run_id = client.submit_request(slow_request(project, 30.0, parts=2), patience=PATIENCE)
        wait_until(lambda: client.get(run_id).state == "S2")
        client.abort(run_id, "enough")
        run = client.wait(run_id, timeout=PATIENCE)
        assert run.status == "ABORTED"
        assert run.sealed is not None
        # Both workers are free again: the next run does not wait for thirty seconds.
        following = client.wait(client.submit_request(slow_request(project, 0.0)), timeout=PATIENCE)
        assert following.status == "SUCCESS"
    assert stack.command("verify", run.sealed.location).returncode == 0
