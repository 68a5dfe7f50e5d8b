"""A review by quorum on real processes: two people vote from the command line, the change lands, the bundle says who voted."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.resources import policy_directory
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import AskingStack

pytestmark = pytest.mark.long
PEOPLE = ("owner", "tester")
RULE = {
    "name": "review", "reason": "review", "risk": "medium", "approvers": ["owner", "tester"], "within_seconds": 3600,
    "quorum": {"domain": ["owner"], "quality": ["tester"]},
}  # fmt: skip


def make_policies(folder: Path) -> Path:
    shutil.copytree(policy_directory(), folder)
    people = []
    for name in PEOPLE:
        key = folder.parent / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key], check=True)
        people.append({"name": name, "keys": [{"key": key.with_suffix(".pub").read_text().strip()}]})
    (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [RULE]}))
    (folder / "approvers.json").write_text(json.dumps({"version": "1", "people": people}))
    return folder


def test_two_people_and_the_reviewer_make_the_consensus_that_lands(tmp_path: Path, make_project: MakeProject) -> None:
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies"))
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 0.0), patience=10.0)
        wait_until(lambda: client.get(run_id).state == "AWAITING_APPROVAL", SECONDS)

        def vote(person: str, *words: str) -> dict[str, object]:
            said = ("--scope", "all", "--rationale", "read", "--key", str(tmp_path / person), "--as", person, "--json")
            answer = stack.process("review", "vote", run_id, *words, *said)
            found: dict[str, object] = json.loads(answer.stdout)
            return found

        wrong = vote("owner", "green", "--evidence", "patch:nowhere.py:1")
        assert wrong["error"]["code"] == "anchor_unresolved"  # type: ignore[index]
        vote("owner", "green", "--evidence", "tests:1")
        shown = json.loads(stack.process("review", "status", run_id, "--json").stdout)["review"]
        assert shown["phase"] == "REVIEW"
        assert [(each["voter"], each["colour"]) for each in shown["votes"]] == [("role:reviewer", "green"), ("owner", "green")]
        vote("tester", "yellow", "--evidence", "document:review", "--mitigation", "watch it|owner|2199-01-01")
        run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, run.failure) == ("SUCCESS", None)
        assert "MERGED" in stack.process("review", "status", run_id).stdout
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert "voted green on review" in verified.stdout
    assert "voted yellow on review" in verified.stdout
