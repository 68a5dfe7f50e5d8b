"""A routed run with two lanes of people, on real processes: all is killed in each of them, and it lands and verifies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts import ReviewRouting, codec
from gatewright.evidence import layout
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack
from tests.e2e.test_approvals import AskingStack, make_policies, parked_run, stack_to_be_killed
from tests.git.repositories import Repository
from tests.rosters import make_keys

pytestmark = pytest.mark.long

ROUTING = {"version": "1", "low_paths": ["docs/"], "high_paths": ["src/b.py"]}
DOUBTS: dict[str, object] = {
    "name": "doubts", "reason": "critic", "risk": "high", "approvers": ["ana"], "within_seconds": 86_400,
}  # fmt: skip
REVIEW: dict[str, object] = {
    "name": "review", "reason": "review", "risk": "medium", "approvers": ["owner", "tester"], "within_seconds": 86_400,
    "quorum": {"domain": ["owner"], "quality": ["tester"]},
}  # fmt: skip
PEOPLE = ("ana", "owner", "tester")


class Answers:
    """What people say from another terminal."""

    def __init__(self, stack: AskingStack, run_id: str, keys: Path) -> None:
        self._stack = stack
        self._run_id = run_id
        self._keys = keys

    def approve(self, person: str) -> dict[str, Any]:
        return self._told("approvals", "approve", self._request("doubts"), *self._signing(person))

    def vote(self, person: str) -> dict[str, Any]:
        said = ("--scope", "src", "--rationale", "read", "--evidence", "patch:src/b.py:2")
        return self._told("review", "vote", self._run_id, "green", *said, *self._signing(person))

    def waiting(self) -> list[str]:
        """The rules that wait for an answer."""
        listed = self._told("approvals", "list", "--json")["approvals"]
        return sorted(each["request"]["rule"] for each in listed)

    def _request(self, rule: str) -> str:
        listed = self._told("approvals", "list", "--json")["approvals"]
        (found,) = (each["request"]["request_id"] for each in listed if each["request"]["rule"] == rule)
        return str(found)

    def _signing(self, person: str) -> tuple[str, ...]:
        return ("--key", str(self._keys / person), "--as", person, "--json")

    def _told(self, *words: str) -> dict[str, Any]:
        answer = self._stack.process(*words)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        told: dict[str, Any] = json.loads(answer.stdout)
        return told


def make_stack(folder: Path) -> AskingStack:
    keys = make_keys(folder, PEOPLE)
    others = {name: key for name, key in keys.items() if name != "ana"}
    policies = make_policies(folder / "policies", keys["ana"], DOUBTS, **others)
    (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [DOUBTS, REVIEW]}))
    (policies / "routing_rules.json").write_text(json.dumps(ROUTING))
    return AskingStack(folder / "home", policies)


def required(routing: ReviewRouting) -> dict[str, str]:
    """The owners of the lanes of people that the change has to go, by lane."""
    return {lane.lane: lane.owner for lane in routing.lanes if lane.required and lane.authority == "person"}


def test_a_routed_run_passes_both_lanes_despite_a_full_restart(tmp_path: Path, make_project: MakeProject) -> None:
    stack, project = make_stack(tmp_path), make_project()
    run_id = parked_run(stack, project)  # killed while both lanes are open
    people = Answers(stack, run_id, tmp_path)
    with stack_to_be_killed(stack):
        with stack.client() as client:
            routed = client.get(run_id).routing
        assert people.waiting() == ["doubts", "review"]
        people.approve("ana")
        people.vote("owner")
        assert people.waiting() == ["review"]  # one lane is through, the other half way: killed once more
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run = client.get(run_id)
        assert (run.state, run.routing) == ("AWAITING_APPROVAL", routed)
        people.vote("tester")
        run = client.wait(run_id, timeout=SECONDS)
    assert routed is not None
    assert (run.status, run.failure, run.routing) == ("SUCCESS", None, routed)
    assert (routed.tier, required(routed)) == ("high", {"critic": "ana", "person": "owner, tester"})
    assert [trigger.code for trigger in routed.critic_triggers] == ["proof_missing"]
    assert run.landed is not None
    assert run.landed.tree == routed.candidate_tree
    assert Repository(project, project.parent / "home").head(run.landed.ref) == run.landed.commit
    assert run.sealed is not None
    bundle = Path(run.sealed.location)
    document = bundle / layout.REVIEW_ROUTING
    assert codec.decode(document.read_bytes(), ReviewRouting) == routed
    verified = stack.process("verify", str(bundle))
    assert verified.returncode == 0, verified.stdout
    assert "approval  ana (SHA256:" in verified.stdout
    assert verified.stdout.count("voted green on review") == 2
    document.write_bytes(document.read_bytes().replace(b'"high"', b'"low"'))
    assert stack.process("verify", str(bundle)).returncode == 1
