"""A review by quorum on real processes: two people vote from the command line, the change lands, the bundle says who voted."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.resources import policy_directory
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import AskingStack
from tests.e2e.test_run_kinds import branch
from tests.git.repositories import Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.rosters import make_keys, write_roster
from tests.structured.scripted import write_models
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long
PEOPLE = ("owner", "tester")
RULE: dict[str, object] = {
    "name": "review", "reason": "review", "risk": "medium", "approvers": ["owner", "tester"], "within_seconds": 3600,
    "quorum": {"domain": ["owner"], "quality": ["tester"]},
}  # fmt: skip


def make_policies(folder: Path, rule: dict[str, object] = RULE) -> Path:
    shutil.copytree(policy_directory(), folder)
    write_roster(folder, make_keys(folder.parent, PEOPLE))
    (folder / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [rule]}))
    return folder


def test_two_people_and_the_reviewer_make_the_consensus_that_lands(tmp_path: Path, make_project: MakeProject) -> None:
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies"))
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 0.0), patience=PATIENCE)
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
        told = json.loads(stack.process("context", run_id, "--select", "review", "--select", "diff", "--json").stdout)
        review, change = (each["text"] for each in told["sections"])
        assert (told["state"], told["run_id"]) == ("AWAITING_APPROVAL", run_id)
        assert "- green owner: read [tests:1]" in review
        assert "\n+edited = True" in change
        assert client.context(run_id, ["review"]).sections[0].text == review
        vote("tester", "yellow", "--evidence", "document:review", "--mitigation", "watch it|owner|2199-01-01")
        run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, run.failure) == ("SUCCESS", None)
        assert "MERGED" in stack.process("review", "status", run_id).stdout
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert "voted green on review" in verified.stdout
    assert "voted yellow on review" in verified.stdout


@dataclass(frozen=True)
class ModelStack(AskingStack):
    """One whose worker asks a model."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "SCRIPTED_KEY": KEY}


def write(body: dict[str, Any]) -> Say:
    """The files edited; once a person's words say that a reason is missing, with the reason."""
    why = "  # asked for" if "say why it is edited" in json.dumps(body) else ""
    return Say("\n".join(f"```python\n# file: src/{name}.py\n{name} = 1\nedited = True{why}\n```\n" for name in "ab"))


def test_a_red_vote_returns_the_change_and_the_repair_lands(tmp_path: Path, make_project: MakeProject) -> None:
    policies = make_policies(tmp_path / "policies", RULE | {"on_reject": "repair"})
    stack = ModelStack(tmp_path / "home", policies)
    with ScriptedProvider() as provider:
        write_models(policies, provider, {"worker": "write"})
        provider.scripts.update(write=write)
        with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
            project = make_project()
            once = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
            request = replace(
                slow_request(project, 0.0), executor=Executor(kind="model", model="write-model"), timeout_retry=once
            )
            run_id = client.submit_request(request, patience=PATIENCE)

            def vote(person: str, colour: str, words: str) -> None:
                said = ("--scope", "src", "--rationale", words, "--evidence", "patch:src/a.py:2", "--as", person)
                answer = stack.process("review", "vote", run_id, colour, *said, "--key", str(tmp_path / person))
                assert answer.returncode == 0, answer.stdout + answer.stderr

            def waits(attempt: int) -> bool:
                run = client.get(run_id)
                assert run.failure is None, run.failure
                return run.state == "AWAITING_APPROVAL" and run.attempt == attempt

            wait_until(lambda: waits(1), SECONDS)
            vote("tester", "green", "it works")
            vote("owner", "red", "say why it is edited")
            wait_until(lambda: waits(2), SECONDS)
            for person in PEOPLE:
                vote(person, "green", "it says why")
            run = client.wait(run_id, timeout=SECONDS)
            assert (run.status, run.failure) == ("SUCCESS", None)
        trail = json.loads(stack.process("show", run_id, "--as", "trail", "--json").stdout)
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    assert ["red" in line for line in verified.stdout.splitlines() if "voted" in line].count(True) == 1
    (item,) = trail["items"]
    assert (item["state"], [each["colour"] for each in item["packet"]["void_votes"]]) == ("cured", ["green", "red"])
    landed = Repository(project, tmp_path).git("show", f"gatewright/{run_id}:src/a.py")
    assert landed == b"a = 1\nedited = True  # asked for\n"


def test_people_vote_on_commits_across_a_killed_gatekeeper(tmp_path: Path, make_project: MakeProject) -> None:
    stack = AskingStack(tmp_path / "home", make_policies(tmp_path / "policies"))
    project = make_project()
    branch(project, "a = 2\n")
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client, ThreadPoolExecutor() as pool:
        command = pool.submit(stack.process, "review-commits", "--head", "topic", "--json", cwd=project)

        def waiting() -> list[str]:
            listed = json.loads(stack.process("approvals", "list", "--json").stdout)["approvals"]
            return [each["request"]["run_id"] for each in listed]

        wait_until(lambda: bool(waiting()), SECONDS)
        (run_id,) = waiting()

        def vote(person: str, colour: str) -> None:
            said = ("--scope", "all", "--rationale", "read", "--evidence", "patch:src/a.py:1", "--as", person)
            answer = stack.process("review", "vote", run_id, colour, *said, "--key", str(tmp_path / person))
            assert answer.returncode == 0, answer.stdout + answer.stderr

        vote("owner", "red")
        assert stack.kill("gatekeeper") == 1
        vote("tester", "green")
        assert client.get(run_id).state == "AWAITING_APPROVAL"
        vote("owner", "green")
        run = client.wait(run_id, timeout=SECONDS)
        assert (run.status, run.failure, run.landed) == ("SUCCESS", None, None)
        assert json.loads(command.result().stdout.splitlines()[-1])["status"] == "SUCCESS"
        assert "owner" in stack.process("review", "status", run_id).stdout
        assert "approval" in stack.process("show", run_id).stdout
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location, "--repo", str(project))
    assert verified.returncode == 0, verified.stdout
    assert [line.count("voted green on review") for line in verified.stdout.splitlines()].count(1) == 2
