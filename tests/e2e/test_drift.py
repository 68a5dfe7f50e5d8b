"""A review whose target branch moves, on real processes: all is killed, the votes are void, and the second ones land it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Repository as RepositoryField
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import AskingStack, make_policies, stack_to_be_killed
from tests.git.repositories import Repository
from tests.rosters import make_keys
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

MAIN = "refs/heads/main"
REVIEW: dict[str, object] = {
    "name": "review", "reason": "review", "risk": "medium", "approvers": ["owner", "tester"], "within_seconds": 86_400,
    "quorum": {"domain": ["owner"], "quality": ["tester"]},
}  # fmt: skip


def test_votes_are_void_after_a_full_restart_on_a_moved_branch(tmp_path: Path, make_project: MakeProject) -> None:
    keys = make_keys(tmp_path, ("ana", "owner", "tester"))
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies", keys.pop("ana"), REVIEW, **keys))
    project = make_project()
    source = Repository(project, project.parent / "home")

    def vote(person: str) -> tuple[int, str]:
        words = ("--scope", "src", "--rationale", "read", "--evidence", "patch:src/a.py:2")
        answer = stack.process("review", "vote", run_id, "green", *words, "--key", str(keys[person]), "--as", person, "--json")
        return answer.returncode, answer.stdout

    with stack_to_be_killed(stack), stack.client() as client:
        request = slow_request(project, 0.0)
        target = RepositoryField(url=str(project), target_ref=MAIN, landing="branch")
        run_id = client.submit_request(replace(request, repository=target), patience=PATIENCE)
        wait_until(lambda: client.get(run_id).parked, SECONDS)
        assert vote("owner")[0] == 0
    source.git("checkout", "--quiet", "--detach")
    moved = source.commit({"other.txt": b"another change\n"})
    source.git("update-ref", MAIN, moved)
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        code, told = vote("tester")
        assert (code, json.loads(told)["error"]["code"]) == (1, "approval_void")
        assert [asked.status for asked in client.get(run_id).approvals.values()] == ["lapsed", "pending"]
        shown = stack.process("approvals", "show", run_id)
        assert all(words in shown.stdout for words in (moved[:12], "other.txt")), shown.stdout
        assert vote("tester")[0] == 0
        assert client.get(run_id).parked, "the owner has to vote again"
        assert vote("owner")[0] == 0
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    bundle = Path(run.sealed.location)
    verified = stack.process("verify", str(bundle))
    assert verified.returncode == 0, verified.stdout
    events = bundle / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(moved.encode(), b"0" * 40))
    assert stack.process("verify", str(bundle)).returncode == 1
