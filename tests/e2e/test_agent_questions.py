"""An agent that asks leave, on real processes: a person answers with an SSH key, and the change lands."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository, TimeoutRetry
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, running_stack, wait_until
from tests.e2e.test_approvals import make_key, make_policies
from tests.e2e.test_hostile_agents import CHECK, GOOD, ONCE, AgentStack, make_base
from tests.waiting import PATIENCE
from tests.worker.agents.admissions import admit_all

pytestmark = pytest.mark.long

RULE: dict[str, object] = {
    "name": "leave", "reason": "agent_question", "risk": "medium",
    "approvers": ["ana"], "within_seconds": 3600, "yourself": True,
}  # fmt: skip


def ordered(project: Path) -> RunRequest:
    """What the agent ``wants`` is to do; its requester lets it ask."""
    return RunRequest(
        request="edit every file of src",
        repository=Repository(url=str(project)),
        requested_by="tests",
        ordered_by=("dispatcher@example.org",),
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd=CHECK, must_pass=True),),
        executor=Executor(kind="agent", agent="wants"),
        environment=Environment(prefix=str(PREFIX)),
        timeout_retry=TimeoutRetry(timeout_sec=240, max_retries=0, retry_backoff_sec=0),
        interactive=True,
    )


def test_an_approved_command_runs_once_despite_a_killed_gatekeeper(tmp_path: Path, make_project: MakeProject) -> None:
    key = make_key(tmp_path)
    base = make_base(tmp_path, {"wants": (f"wants:{ONCE}:{GOOD}", "say:over")})
    asking = make_policies(tmp_path / "asking", key, RULE)
    for name in ("approval_rules.json", "approvers.json"):
        shutil.copy(asking / name, base / "policies" / name)
    admit_all(base / "home", base / "policies", base / "installation")
    with running_stack(base / "home", workers=1, stack=AgentStack(base / "home", base)) as stack, stack.client() as client:
        run_id = client.submit_request(ordered(make_project()), patience=PATIENCE)
        wait_until(lambda: bool(client.get(run_id).approvals), SECONDS)
        gatekeeper = next(member.pid for member in stack.state.members if member.name.startswith("gatekeeper"))
        os.kill(gatekeeper, signal.SIGKILL)
        wait_until(lambda: stack.process("approvals", "list", "--json").returncode == 0, SECONDS)
        shown = stack.process("approvals", "show", run_id)
        assert "for f in src/a.py src/b.py" in shown.stdout, shown.stdout + shown.stderr
        approved = stack.process("approvals", "approve", run_id, "--key", str(key), "--as", "ana", "--json")
        assert approved.returncode == 0, approved.stdout + approved.stderr
        run = client.ended(run_id, timeout=SECONDS)
    assert (run.status, run.code) == ("SUCCESS", "ok")
    assert run.bundle is not None
    bundle = Path(run.bundle.location)
    (events,) = bundle.glob("codex/*/events.jsonl")
    told = [json.loads(line) for line in events.read_text().splitlines()]
    (asked,) = [event for event in told if event["event"] == "permission"]
    assert (asked["answer"], asked["by"], asked["person"]) == ("allow", "person", "ana")
    verified = stack.process("verify", run.bundle.location)
    assert verified.returncode == 0, verified.stdout
    assert "approval  ana (SHA256:" in verified.stdout
