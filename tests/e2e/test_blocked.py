"""A model that cannot tell something, on real processes: it guesses, a person comments, and the next round is told."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.rules.blocked.asking import BLOCKED_NAME
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import SECONDS, running_stack, slow_request, wait_until
from tests.e2e.test_approvals import make_key, make_policies
from tests.e2e.test_transfers import REVIEW, SendingStack
from tests.git.repositories import Repository
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say, Turn
from tests.structured.scripted import answering, write_models
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

RULE: dict[str, object] = {
    "name": "guesses", "reason": "blocked", "risk": "low", "approvers": ["ana"], "within_seconds": 3600, "yourself": True,
}  # fmt: skip
QUESTION = {
    "question": "Is the limit 3 or 5?",
    "best_guess": "3",
    "fallback_action": "the change goes on with 3",
    "can_resume_without_answer": True,
}
REFUSED = REVIEW | {
    "verdict": "FAIL",
    "findings": [{"path": "src/a.py", "line": 2, "message": "the limit is not said", "blocking": True}],
}


def write(body: dict[str, Any]) -> Say:
    """The files by the guess, and the question; by what the person said, once that is told."""
    limit = "5" if "the client is wrong: 5" in json.dumps(body) else "3"
    files = [f"```python\n# file: src/{name}.py\n{name} = 1\nedited = {limit}\n```\n" for name in "ab"]
    asked = [f"```json\n# file: {BLOCKED_NAME}\n{json.dumps(QUESTION)}\n```\n"]
    return Say("\n".join(files + asked))


def test_the_next_round_uses_a_persons_answer(tmp_path: Path, make_project: MakeProject) -> None:
    key, said, project = make_key(tmp_path), threading.Event(), make_project()
    policies = make_policies(tmp_path / "policies", key, RULE)
    stack = SendingStack(tmp_path / "home", policies)
    reviews = iter((REFUSED, REVIEW))

    def review(body: dict[str, Any]) -> Turn:
        """The first review is over when the person has spoken."""
        assert said.wait(SECONDS)
        return answering(next(reviews))(body)

    with ScriptedProvider({"write": write, "review": review}) as provider:
        write_models(policies, provider, {"worker": "write", "reviewer": "review"})
        with running_stack(stack.home, workers=1, stack=stack), stack.client() as client:
            once = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
            made = Executor(kind="model", model="write-model")
            run_id = client.submit_request(
                replace(slow_request(project, 0.0), executor=made, timeout_retry=once), patience=PATIENCE
            )
            wait_until(lambda: bool(client.get(run_id).approvals), SECONDS)
            words = ("--text", "the client is wrong: 5", "--as", "ana", "--key", str(key), "--json")
            commented = stack.process("approvals", "comment", run_id, *words)
            said.set()
            assert commented.returncode == 0, commented.stdout + commented.stderr
            run = client.wait(run_id, timeout=SECONDS)
    assert (run.status, run.failure, run.attempt) == ("SUCCESS", None, 2)
    first, second = (seen.body for seen in provider.requests if "/s/write/" in seen.path)
    assert BLOCKED_NAME.encode() in first
    assert b"ana comments: the client is wrong: 5" in second
    landed = Repository(project, project.parent / "home").git("show", f"gatewright/{run_id}:src/a.py")
    assert landed == b"a = 1\nedited = 5\n"
    assert run.sealed is not None
    verified = stack.process("verify", run.sealed.location)
    assert verified.returncode == 0, verified.stdout
    again = stack.process("replay", "--reexecute", run.sealed.location)
    assert again.returncode != 0
    assert "people's answers" in again.stdout + again.stderr
