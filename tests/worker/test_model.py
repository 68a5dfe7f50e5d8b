"""The model executor: one call through the gateway, and its reply is taken apart as a recorded one is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.contracts import TaskResult
from gatewright.contracts.vocabulary import Budget, Executor
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.handler_fixture import HandlerFixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Say, Script

GOOD = "Here it is:\n\n```python\n# file: src/a.py\nx = 2\n```\n"
SCRIPTS: dict[str, Script] = {
    "good": [Say(GOOD)],
    "words": [Say("I would rather not.")],
    "failing": [Fail(401)],
    "down": [Fail(500)],
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider(SCRIPTS) as provider:
        yield provider


def asking(fixture: HandlerFixture, provider: ScriptedProvider, script: str, tmp_path: Path) -> WorkerHandler:
    """A worker whose one model plays ``script``."""
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (policies / "models.json").write_text(json.dumps(provider.policy(script)))
    return make_handler(Settings(home=fixture.state, policies=policies))


async def work(fixture: HandlerFixture, worker: WorkerHandler, model: str | None = None, **changes: object) -> TaskResult:
    contract = fixture.contract(executor=Executor(kind="model", model=model), **changes)
    return await worker.handle(contract, fixture.context())


def kept(fixture: HandlerFixture, result: TaskResult, name: str) -> bytes:
    return next(fixture.artifacts.stored[artifact.uri] for artifact in result.artifacts if artifact.name == name)


@pytest.mark.parametrize("model", [None, "scripted", "scripted-claude"])
async def test_the_files_of_the_reply_are_the_patch(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path, model: str | None
) -> None:
    result = await work(fixture, asking(fixture, provider, "good", tmp_path), model)
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    assert (result.status, result.failure) == ("SUCCESS", None)
    assert fixture.artifacts.stored[result.git.patch] == patch
    assert kept(fixture, result, "reply") == GOOD.encode()
    (call,) = kept(fixture, result, "model_calls").splitlines()
    assert json.loads(call)["status"] == 200
    (request,) = provider.requests
    assert b"x = 1" in request.body
    assert b"read me" not in request.body


async def test_the_result_names_the_model_that_stood_in(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path
) -> None:
    policy = provider.policy("good")
    policy["providers"].append(provider.provider("down", name="down", apis=["responses", "chat_completions"]))
    policy["models"].append({"name": "down", "provider": "down", "price": None})
    policy["routes"][0]["models"] = ["down", "scripted"]
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (policies / "models.json").write_text(json.dumps(policy))
    result = await work(fixture, make_handler(Settings(home=fixture.state, policies=policies)), "down")
    assert result.status == "SUCCESS"
    assert "down was to be asked, and scripted answered 1 of 1 calls" in result.summary


async def test_a_reply_without_files_is_refused_and_kept(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path
) -> None:
    result = await work(fixture, asking(fixture, provider, "words", tmp_path))
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "reply_not_usable")
    assert kept(fixture, result, "reply") == b"I would rather not."


async def test_a_provider_that_refuses_is_no_change_and_its_key_is_told_nowhere(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path
) -> None:
    result = await work(fixture, asking(fixture, provider, "failing", tmp_path))
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "model_unavailable")
    assert not any(KEY.encode() in data for data in fixture.artifacts.stored.values())


async def test_a_key_that_is_missing_is_said_before_anything_is_sent(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = asking(fixture, provider, "good", tmp_path)
    monkeypatch.delenv("SCRIPTED_KEY")
    result = await work(fixture, worker)
    assert (result.failure or "").partition(":")[0] == "model_key_missing"
    assert provider.requests == []


async def test_a_budget_that_the_call_would_exceed_is_kept(
    fixture: HandlerFixture, provider: ScriptedProvider, tmp_path: Path
) -> None:
    result = await work(fixture, asking(fixture, provider, "good", tmp_path), budget=Budget(tokens=10))
    assert (result.failure or "").partition(":")[0] == "budget_exceeded"
    assert provider.requests == []
