"""A run that waits for a person, on real processes: parked, everything killed, started anew, approved by an SSH key, landed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.app.stack.state import read
from gatewright.resources import policy_directory
from tests import rosters
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, SECONDS, Stack, is_ready, running_stack, slow_request, wait_until
from tests.git.repositories import Repository
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

PHRASE = "land it"
RULE: dict[str, object] = {
    "name": "landing",
    "reason": "landing",
    "risk": "high",
    "approvers": ["ana"],
    "within_seconds": 86_400,
    "phrase": PHRASE,
    "release_locks": True,
}


@dataclass(frozen=True)
class AskingStack(Stack):
    """A stack whose policies ask a person."""

    policies: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "GATEWRIGHT_POLICIES": str(self.policies)}


def make_key(folder: Path, name: str = "id_ed25519") -> Path:
    """An SSH key as people make them."""
    return rosters.make_key(folder / name)


def make_policies(folder: Path, key: Path, rule: dict[str, object] = RULE, **others: Path) -> Path:
    """``key`` is Ana's; ``others`` are those of other people by name."""
    shutil.copytree(policy_directory(), folder)
    rosters.write_roster(folder, {"ana": key, **others})
    (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [rule]}))
    return folder


def kill_everything(stack: Stack) -> None:
    """`kill -9` of every process that the stack has, the bus and the supervisor among them."""
    state = stack.state
    for pid in (state.pid, *(member.pid for member in state.members)):
        with contextlib.suppress(ProcessLookupError):  # the supervisor's end may have ended it already
            os.kill(pid, signal.SIGKILL)


@contextmanager
def stack_to_be_killed(stack: Stack) -> Iterator[None]:
    """The stack for the time of a block, at whose end `kill -9` ends all of it."""
    argv = [sys.executable, "-P", "-m", "gatewright.app.cli.main", "up", "--workers", "1", "--env", str(PREFIX)]
    log = stack.home.parent / "killed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=stack.home.parent,
            env=stack.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(lambda: process.poll() is not None or is_ready(stack), SECONDS)
        assert process.poll() is None, log.read_text()
        yield
        kill_everything(stack)
    finally:
        process.kill()
        process.wait(SECONDS)
    assert read(stack.home) is None


def parked_run(stack: Stack, project: Path, then: Callable[[str], None] = lambda _: None) -> str:
    """Start the stack, order a run, wait until it waits for a person, and do ``then``; after that all that runs is killed."""
    with stack_to_be_killed(stack):
        with stack.client() as client:
            run_id = client.submit_request(slow_request(project, 0.0), patience=PATIENCE)
            wait_until(lambda: client.get(run_id).state == "AWAITING_APPROVAL", SECONDS)
        then(run_id)
    return run_id


def test_a_parked_run_lands_after_a_full_restart_and_approval(tmp_path: Path, make_project: MakeProject) -> None:
    key, project = make_key(tmp_path), make_project()
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies", key))
    run_id = parked_run(stack, project)
    with running_stack(stack.home, workers=1, stack=stack):
        listed = json.loads(stack.process("approvals", "list", "--json").stdout)
        (asked,) = (each["request"] for each in listed["approvals"])
        answer = ("approvals", "approve", run_id, "--key", str(key), "--as", "ana", "--json")
        wrong = stack.process(*answer, "--phrase", "land it!")
        assert json.loads(wrong.stdout)["error"]["code"] == "approval_phrase_differs"
        shown = stack.process("approvals", "show", run_id)
        assert "+edited = True" in shown.stdout
        approved = stack.process(*answer, "--phrase", PHRASE)
        assert approved.returncode == 0, approved.stdout + approved.stderr
        with stack.client() as client:
            run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, run.failure) == ("SUCCESS", None)
        (rule,) = json.loads(stack.process("approvals", "stats", "--json").stdout)["rules"]
        assert (rule["asked"], rule["approved"]) == (1, 1)
    assert run.landed is not None
    assert run.sealed is not None
    assert (run.landed.tree, asked["run_id"]) == (asked["candidate_tree"], run_id)
    assert Repository(project, project.parent / "home").head(run.landed.ref) == run.landed.commit
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert "approval  ana (SHA256:" in verified.stdout
    assert f"over tree {run.landed.tree}" in verified.stdout
    assert ssh_keygen_agrees(Path(run.sealed.location), key, tmp_path)


def ssh_keygen_agrees(bundle: Path, key: Path, folder: Path) -> bool:
    """Whether OpenSSH's own program takes the signature in the bundle for that of the key."""
    (signature,) = bundle.glob("approvals/*/decision-001.sshsig")
    allowed = folder / "allowed_signers"
    allowed.write_text(f"ana {key.with_suffix('.pub').read_text()}")
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "ana", "-n", "gatewright-approval-v1", "-s", str(signature)]
    decision = signature.with_suffix(".json").read_bytes()
    return subprocess.run(argv, input=decision, capture_output=True, check=False).returncode == 0


def test_an_advance_approval_lands_one_run_after_a_full_restart(tmp_path: Path, make_project: MakeProject) -> None:
    key, project = make_key(tmp_path), make_project()
    rule = RULE | {"risk": "medium", "phrase": "", "grants": {"within_seconds": 86_400, "uses": 3}}
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies", key, rule))
    signing = ("--key", str(key), "--as", "ana", "--json")

    def grant(run_id: str) -> None:
        wide = stack.process("approvals", "grant", run_id, "--path", "src/", "--until", "2d", *signing)
        assert json.loads(wide.stdout)["error"]["code"] == "grant_too_wide"
        given = stack.process("approvals", "grant", run_id, "--path", "src/", "--until", "4h", *signing)
        assert given.returncode == 0, given.stdout + given.stderr

    parked_run(stack, project, grant)
    with running_stack(stack.home, workers=1, stack=stack):
        with stack.client() as client:
            run = client.wait(client.submit_request(slow_request(project, 0.0), patience=PATIENCE), timeout=SECONDS)
            assert (run.status, run.failure) == ("SUCCESS", None)
            second = client.submit_request(slow_request(project, 0.0), patience=PATIENCE)
            wait_until(lambda: client.get(second).state == "AWAITING_APPROVAL", SECONDS)
        (standing,) = json.loads(stack.process("approvals", "grants", "--json").stdout)["grants"]
        assert (standing["status"], [each["run_id"] for each in standing["uses"]]) == ("used_up", [run.run_id])
        revoked = stack.process("approvals", "revoke", standing["grant"]["grant_id"], *signing)
        assert json.loads(revoked.stdout)["status"] == "revoked", revoked.stdout
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert f"by {standing['grant']['grant_id']}: run 1 of 1" in verified.stdout


def test_a_delegated_request_survives_a_full_restart_and_is_decided(tmp_path: Path, make_project: MakeProject) -> None:
    key, other, project = make_key(tmp_path), make_key(tmp_path, "ben_ed25519"), make_project()
    policies = make_policies(tmp_path / "policies", key, RULE | {"approvers": ["ana", "ben"]}, ben=other)
    stack = AskingStack(tmp_path / "home", policies)
    of_ana, of_ben = (("--key", str(held), "--as", name, "--json") for held, name in ((key, "ana"), (other, "ben")))

    def hand_on(run_id: str) -> None:
        given = stack.process("approvals", "delegate", run_id, "--to", "ben", "--comment", "away", *of_ana)
        assert given.returncode == 0, given.stdout + given.stderr

    run_id = parked_run(stack, project, hand_on)
    with running_stack(stack.home, workers=1, stack=stack):
        again = stack.process("approvals", "approve", run_id, *of_ana, "--phrase", PHRASE)
        assert json.loads(again.stdout)["error"]["code"] == "approval_handed_on"
        back = stack.process("approvals", "delegate", run_id, "--to", "ana", *of_ben)
        assert json.loads(back.stdout)["error"]["code"] == "approval_handed_on"
        approved = stack.process("approvals", "approve", run_id, *of_ben, "--phrase", PHRASE)
        assert approved.returncode == 0, approved.stdout + approved.stderr
        with stack.client() as client:
            run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert "approval  ben (SHA256:" in verified.stdout
    assert "ana" in verified.stdout, "who handed it on is said"
