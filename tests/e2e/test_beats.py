"""A worker that stands still becomes visible within two beats, and is silent no longer once it goes on; on real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.resources import policy_directory
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, Stack, running_stack, slow_request, wait_until
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class BeatingStack(Stack):
    """A stack with a beat of a second."""

    policies: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "GATEWRIGHT_POLICIES": str(self.policies)}


def silent_since(stack: Stack, run_id: str) -> tuple[str | None, str | None]:
    """What `status` and `runs` say of it."""
    status = json.loads(stack.command("status", run_id, "--json").stdout)
    listed = json.loads(stack.command("runs", "--json").stdout)["runs"]
    (entry,) = (each for each in listed if each["run_id"] == run_id)
    return status.get("silent_since"), entry["silent_since"]


def claimed_at(stack: Stack, run_id: str) -> str | None:
    status = json.loads(stack.command("status", run_id, "--json").stdout)
    return next((task.get("claimed_at") for task in status["tasks"] if task["role"] == "worker"), None)


def test_a_stopped_worker_is_silent_until_it_goes_on(tmp_path: Path, make_project: MakeProject) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(policy_directory(), policies)
    (policies / "beats.json").write_text(json.dumps({"version": "1", "seconds": 1}))
    project, stack = make_project(), BeatingStack(tmp_path / "home", policies)
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(slow_request(project, 300.0), patience=PATIENCE)
        wait_until(lambda: claimed_at(stack, run_id) is not None, SECONDS)
        (worker,) = stack.members("worker")
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: all(silent_since(stack, run_id)), SECONDS)
            assert "silent since" in stack.command("status", run_id).stdout
            assert "silent since" in stack.command("runs").stdout
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: not any(silent_since(stack, run_id)), SECONDS)
        client.abort(run_id, "seen enough")
        run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, silent_since(stack, run_id)) == ("ABORTED", (None, None))
        ledger = [record.event_type for record in client.events(run_id)]
    assert not [event for event in ledger if "claim" in event], "claims are in no ledger"
