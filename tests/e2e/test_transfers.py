"""What goes to providers of models, on real processes: asked about, approved by a key, sent to just that, refused elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.rules.transfers import manifest_digest
from gatewright.run.state import Run
from tests.attacks.test_transfers import SECRET
from tests.e2e.conftest import FILES, MakeProject
from tests.e2e.stack import SECONDS, Stack, is_ready, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import AskingStack, make_key, make_policies
from tests.e2e.test_research import DOCUMENT, artifact
from tests.e2e.test_run_kinds import branch, request_of, review_request
from tests.git.repositories import Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say
from tests.structured.scripted import answering, write_models
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

SENDING: dict[str, object] = {
    "name": "sending", "reason": "transfer", "risk": "high", "approvers": ["ana"], "within_seconds": 3600, "phrase": "send it",
}  # fmt: skip
REVIEW: dict[str, Any] = {
    "verdict": "PASS",
    "summary": "The marks are there.",
    "evidence": [{"path": "src/a.py", "line": 2, "note": "the mark"}],
}
WRITTEN = "\n".join(f"```python\n# file: src/{name}.py\n{name} = 1\nedited = True\n```\n" for name in "ab")


@dataclass(frozen=True)
class SendingStack(AskingStack):
    """One whose worker and reviewer, and the roles of ``more``, ask models."""

    more: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "GATEWRIGHT_CONSULT": f"reviewer{self.more}", "SCRIPTED_KEY": KEY}


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"write": [Say(WRITTEN)], "review": answering(REVIEW), "plan": answering({})}) as running:
        yield running


@dataclass(frozen=True)
class Sending:
    """Policies under which transfers are asked about, and Ana's key."""

    folder: Path
    key: Path
    provider: ScriptedProvider

    def policies(self, mode: str) -> Path:
        made = make_policies(self.folder / "policies", self.key, SENDING)
        write_models(made, self.provider, {"worker": "write", "reviewer": "review", "techlead": "plan"})
        (made / "transfers.json").write_text(json.dumps({"version": "1", "externalTransfers": mode}))
        return made

    def approve(self, stack: Stack, run_id: str) -> None:
        answer = ("approve", run_id, "--key", str(self.key), "--as", "ana", "--phrase", "send it", "--json")
        approved = stack.process("approvals", *answer)
        assert approved.returncode == 0, approved.stdout + approved.stderr


@pytest.fixture
def sending(tmp_path: Path, provider: ScriptedProvider) -> Sending:
    return Sending(tmp_path, make_key(tmp_path), provider)


def by_model(project: Path, parts: int = 1) -> RunRequest:
    once = TimeoutRetry(timeout_sec=60, max_retries=0, retry_backoff_sec=0)
    executor = Executor(kind="model", model="write-model")
    return replace(slow_request(project, 0.0, parts=parts), executor=executor, timeout_retry=once)


def scripts_asked(provider: ScriptedProvider) -> set[str]:
    return {seen.path.split("/")[2] for seen in provider.requests}


def verified(stack: Stack, run: Run) -> str:
    assert run.sealed is not None
    checked = stack.process("verify", run.sealed.location)
    assert checked.returncode == 0, checked.stdout
    return checked.stdout


def test_nothing_is_sent_before_a_person_approves_it(sending: Sending, tmp_path: Path, make_project: MakeProject) -> None:
    stack = SendingStack(tmp_path / "home", sending.policies("manual"))
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run_id = client.submit_request(by_model(make_project()), patience=PATIENCE)
        wait_until(lambda: client.get(run_id).state == "AWAITING_APPROVAL", SECONDS)
        parked = client.get(run_id)
        shown = stack.process("approvals", "show", run_id).stdout
        assert sending.provider.requests == []
        assert [each.role for each in parked.transfers] == ["worker", "reviewer"]
        assert all(manifest_digest(each) in shown for each in parked.transfers)
        assert sending.provider.root in shown
        assert "the worker sends at most 268,435,456 bytes in all" in shown
        sending.approve(stack, run_id)
        run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert scripts_asked(sending.provider) == {"write", "review"}
    assert "approval  ana (SHA256:" in verified(stack, run)
    assert run.sealed is not None
    (records,) = Path(run.sealed.location).glob("consultations/*/calls.jsonl")
    (sent,) = json.loads(records.read_text())["sent"]
    assert sent["manifest_sha256"] == manifest_digest(parked.transfers[1])
    assert sent["endpoint"] == sending.provider.root
    assert 0 < sent["bytes"] <= parked.transfers[1].most_bytes


def test_an_address_that_was_changed_after_the_approval_gets_nothing(
    sending: Sending, tmp_path: Path, make_project: MakeProject
) -> None:
    policies = sending.policies("manual")
    stack = SendingStack(tmp_path / "home", policies)
    with ScriptedProvider({"write": [Say(WRITTEN)]}) as thief:
        with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
            run_id = client.submit_request(by_model(make_project()), patience=PATIENCE)
            wait_until(lambda: client.get(run_id).state == "AWAITING_APPROVAL", SECONDS)
            models = policies / "models.json"
            models.write_text(models.read_text().replace(sending.provider.root, thief.root))
            (before,) = stack.members("worker")
            stack.kill("worker")
            wait_until(lambda: is_ready(stack) and stack.members("worker")[0].pid != before.pid, SECONDS)
            sending.approve(stack, run_id)
            run = client.wait(run_id, timeout=SECONDS)
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")
        assert (thief.requests, sending.provider.requests) == ([], [])
    verified(stack, run)


def test_low_risk_follows_the_rule_and_secrets_ask_a_person(
    sending: Sending, tmp_path: Path, make_project: MakeProject
) -> None:
    stack, project = SendingStack(tmp_path / "home", sending.policies("auto_low_risk")), make_project()
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run = client.wait(client.submit_request(by_model(project), patience=PATIENCE), timeout=SECONDS)
        assert (run.status, run.failure, run.approvals) == ("SUCCESS", None, {})
        assert [(each.role, each.risk, each.mode) for each in run.transfers] == [
            ("worker", "low", "auto_low_risk"),
            ("reviewer", "low", "auto_low_risk"),
        ]
        assert scripts_asked(sending.provider) == {"write", "review"}
        sending.provider.requests.clear()
        Repository(project, project.parent / "home").commit({**FILES, "notes.txt": SECRET})
        second = client.submit_request(by_model(project), patience=PATIENCE)
        wait_until(lambda: client.get(second).state == "AWAITING_APPROVAL", SECONDS)
        assert [each.risk for each in client.get(second).transfers] == ["high", "high"]
        assert sending.provider.requests == []
    verified(stack, run)


def test_a_role_that_works_before_there_is_a_leave_sends_nothing(
    sending: Sending, tmp_path: Path, make_project: MakeProject
) -> None:
    stack = SendingStack(tmp_path / "home", sending.policies("auto_low_risk"), ",techlead")
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        run = client.wait(client.submit_request(by_model(make_project(), parts=2), patience=PATIENCE), timeout=SECONDS)
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "transfer_not_approved")
    assert sending.provider.requests == []
    verified(stack, run)


def test_reviews_and_searches_send_after_their_approval(sending: Sending, tmp_path: Path, make_project: MakeProject) -> None:
    stack, project, provider = SendingStack(tmp_path / "home", sending.policies("manual")), make_project(), sending.provider
    branch(project, "a = 2\nmarked = True\n")
    name = "document:queue.txt"
    steps = [
        {"action": "search", "query": "messages"},
        {"action": "read", "address": name},
        {
            "action": "answer",
            "claims": [{"claim": "512.", "quotes": [{"source": "s1", "text": "holds at most 512 messages"}]}],
            "limitations": [],
        },
    ]
    supported = {**REVIEW, "evidence": [{"path": "evidence_bundle", "line": 2, "note": "compared"}]}
    search = request_of(
        project, "SEARCH", executor=Executor(kind="model", model="write-model"), artifacts=(artifact(name, DOCUMENT),)
    )
    with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
        for request, roles, answer in (
            (review_request(project, "topic"), ["reviewer"], REVIEW),
            (search, ["worker", "reviewer"], supported),
        ):
            provider.scripts["write"], provider.scripts["review"] = [Say(json.dumps(each)) for each in steps], answering(answer)
            provider.requests.clear()
            run_id = client.submit_request(replace(request, ordered_by=("ben@example.org",)), patience=PATIENCE)
            wait_until(lambda run_id=run_id: client.get(run_id).state in {"AWAITING_APPROVAL", "FAILED"}, SECONDS)  # type: ignore[misc]
            waiting = client.get(run_id)
            assert (waiting.failure, [each.role for each in waiting.transfers], provider.requests) == (None, roles, [])
            sending.approve(stack, run_id)
            run = client.wait(run_id, timeout=SECONDS)
            assert (run.status, run.failure) == ("SUCCESS", None)
            assert len(scripts_asked(provider)) == len(roles)
            verified(stack, run)
