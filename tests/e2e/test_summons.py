"""Questions to roles about an open run, on real processes: from the command line, by models over HTTP, around a dead role."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatewright.client.sync import SyncClient
from gatewright.contracts.people.summons import SummonsItem
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, Stack, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import PHRASE, RULE, AskingStack, make_key, make_policies
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Hang, Turn
from tests.processes import killed_on_failure
from tests.structured.scripted import answering, write_models
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

QUESTION = "Is the edit bounded?"
PLACE = {"path": "src/a.py", "line": 2, "note": "it is there"}
OPINION = {"answer": "It is, by one line.", "confidence": "high", "evidence": [PLACE], "open_questions": []}
REVIEW = {"verdict": "PASS", "summary": "It does what was asked.", "evidence": [PLACE]}
TRANSFER: dict[str, object] = {
    "name": "sending", "reason": "transfer", "risk": "high", "approvers": ["ana"], "within_seconds": 86_400,
}  # fmt: skip


@dataclass(frozen=True)
class ConsultingStack(AskingStack):
    """One whose pm and reviewer have a model, and whose tech lead has none."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "GATEWRIGHT_CONSULT": "pm,reviewer", "SCRIPTED_KEY": KEY}


@dataclass
class Model:
    """What each role's model says; ``held`` questions are taken and never answered, and then ``asked`` is set."""

    held: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    questions: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Turn:
        said = json.dumps(body)
        if QUESTION not in said:
            return answering(REVIEW)(body)
        self.questions.append(said)
        if len(self.questions) > self.held:
            return answering(OPINION)(body)
        self.asked.set()
        return Hang()


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


def make_stack(folder: Path, provider: ScriptedProvider, *rules: dict[str, object]) -> ConsultingStack:
    policies = make_policies(folder / "policies", make_key(folder))
    write_models(policies, provider, {"reviewer": "reviewer", "pm": "pm"})
    (policies / "approval_rules.json").write_text(json.dumps({"version": "1", "rules": [RULE, *rules]}))
    (policies / "summons.json").write_text(json.dumps({"version": "1"}))
    return ConsultingStack(folder / "home", policies)


def summon(stack: Stack, run_id: str, *words: str) -> tuple[int, dict[str, Any]]:
    """What `gatewright summon ... --json` says, and its exit code."""
    answer = stack.process("summon", run_id, *words, "--json")
    assert answer.stdout, answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout)
    return answer.returncode, told


def approve(stack: Stack, run_id: str, folder: Path, *phrase: str) -> None:
    signing = ("--key", str(folder / "id_ed25519"), "--as", "ana")
    approved = stack.process("approvals", "approve", run_id, *signing, *phrase)
    assert approved.returncode == 0, approved.stdout + approved.stderr


def parked_for(client: SyncClient, run_id: str, rule: str) -> bool:
    run = client.get(run_id)
    assert run.failure is None, run.failure
    return run.parked and any(each.request.rule == rule and each.status == "pending" for each in run.approvals.values())


def answers_of(listed: dict[str, Any]) -> dict[str, str]:
    """The code of what each role has answered."""
    return {each["task"]["item"]["role"]: each["answer"]["code"] for each in listed["summonses"] if each["answer"]}


def test_a_fan_out_survives_a_killed_role_and_is_bounded(
    tmp_path: Path, make_project: MakeProject, provider: ScriptedProvider
) -> None:
    reviewer, pm = Model(held=1), Model()
    provider.scripts.update(reviewer=reviewer, pm=pm)
    stack = make_stack(tmp_path, provider)
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 0.0), patience=PATIENCE)
        wait_until(lambda: parked_for(client, run_id, "landing"), SECONDS)
        roles = [word for role in ("reviewer", "pm", "techlead") for word in ("--role", role)]
        argv = [sys.executable, "-m", "gatewright.app.cli.main", "summon", run_id, QUESTION, *roles, "--json"]
        asking = subprocess.Popen(argv, cwd=tmp_path, env=stack.environment, stdout=subprocess.PIPE, text=True)
        with killed_on_failure(asking):
            assert reviewer.asked.wait(SECONDS)
            before = client.get(run_id)
            assert stack.kill("reviewer") == 1
            told, _ = asking.communicate(timeout=SECONDS)
        assert asking.returncode == 1, "one role has no model, and the command says so"
        fan_out = json.loads(told)
        assert answers_of(fan_out) == {"reviewer": "ok", "pm": "ok", "techlead": "summons_no_model"}
        assert (len(reviewer.questions), len(pm.questions), fan_out["left"]) == (2, 1, 5)
        assert "+edited = True" in reviewer.questions[1], "it is shown the change"
        more = [SummonsItem(role="reviewer", question=f"{QUESTION} {number}") for number in range(4)]
        assert client.summons_answered(client.summon(run_id, more), timeout=SECONDS).left == 1
        code, refused = summon(stack, run_id, QUESTION, "--role", "pm", "--role", "reviewer", "--constraint", "briefly")
        assert (code, refused["error"]["code"]) == (1, "too_many_summonses")
        code, last = summon(stack, run_id, f"{QUESTION} Truly?")
        assert (code, last["left"], len(last["summonses"])) == (0, 0, 8), "of the two that were too many none was asked"
        code, refused = summon(stack, run_id, f"{QUESTION} Still?")
        assert refused["error"]["code"] == "too_many_summonses"
        after = client.get(run_id)
        assert (after.state, after.approvals, after.tasks) == (before.state, before.approvals, before.tasks)
        kinds = [event.event_type for event in client.events(run_id)]
        assert kinds.count("summons_answered") == 8, "one answer a question, also of the one that was asked twice"
        approve(stack, run_id, tmp_path, "--phrase", PHRASE)
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    bundle = Path(run.sealed.location)
    assert len(list((bundle / "summonses").glob("*/question.json"))) == 8
    assert len(list((bundle / "summonses").glob("*/answer.json"))) == 8
    verified = stack.process("verify", str(bundle))
    assert verified.returncode == 0, verified.stdout


def test_a_question_reaches_a_provider_only_after_a_persons_approval(
    tmp_path: Path, make_project: MakeProject, provider: ScriptedProvider
) -> None:
    reviewer, pm = Model(), Model()
    provider.scripts.update(reviewer=reviewer, pm=pm)
    stack = make_stack(tmp_path, provider, TRANSFER)
    policy = {"version": "1", "externalTransfers": "manual", "internal": []}
    (stack.policies / "transfers.json").write_text(json.dumps(policy))
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 0.0), patience=PATIENCE)
        wait_until(lambda: parked_for(client, run_id, "sending"), SECONDS)
        code, early = summon(stack, run_id, QUESTION)
        assert (code, early["error"]["code"]) == (1, "transfer_not_approved")
        assert provider.requests == []
        approve(stack, run_id, tmp_path)
        wait_until(lambda: parked_for(client, run_id, "landing"), SECONDS)
        code, told = summon(stack, run_id, QUESTION, "--role", "reviewer", "--role", "pm")
        assert (code, answers_of(told)) == (1, {"reviewer": "ok", "pm": "transfer_not_approved"})
        assert (len(reviewer.questions), pm.questions) == (1, []), "for the pm nobody has approved anything"
        approve(stack, run_id, tmp_path, "--phrase", PHRASE)
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
