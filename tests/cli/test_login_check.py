"""``agents login-check`` asks the provider of the model for its list, and says which of key, address and name is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.models.policy import load_models
from tests.command_line import invoke_in
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say

DOCS = Path(__file__).resolve().parents[2] / "docs" / "models.md"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"coder:7b": [Say("")], "claude-sonnet-4-5-20250929": [Say("")], "other": [Say("")]}) as provider:
        yield provider


def check(
    folder: Path, base_url: str, upstream: str, api: str = "chat_completions", key: str = KEY
) -> tuple[int, dict[str, Any]]:
    """Exit code and document, with a folder of policies that holds models.json alone."""
    policies = folder / "policies"
    policies.mkdir(exist_ok=True)
    provider = {"name": "own", "apis": [api], "base_url": base_url, "key": {"environment": "OWN_KEY"}}
    models = [{"name": "mine", "provider": "own", "upstream": upstream, "price": None}]
    routes = [{"role": "worker", "models": ["mine"]}]
    policy = {"version": "1", "providers": [provider], "models": models, "routes": routes}
    (policies / "models.json").write_text(json.dumps(policy))
    around = {"PATH": "/usr/bin:/bin", "GATEWRIGHT_POLICIES": str(policies), "OWN_KEY": key}
    done = invoke_in(folder, around, ("agents", "login-check", "--model", "mine", "--json"))
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("api", "path", "upstream"),
    [
        ("chat_completions", "/v1", "coder:7b"),
        ("chat_completions", "/v1", "coder"),
        ("messages", "", "claude-sonnet-4-5"),
        ("gemini", "", "other"),
    ],
)
def test_a_provider_that_has_the_model_is_good(
    tmp_path: Path, provider: ScriptedProvider, api: str, path: str, upstream: str
) -> None:
    code, found = check(tmp_path, provider.root + path, upstream, api)
    assert (code, found["ok"], found["faults"]) == (0, True, [])
    assert found["provider"].endswith(f"answers, and has the model {upstream}")
    assert [request.method for request in provider.requests] == ["GET"]


def test_an_unknown_model_is_named_with_the_known_ones(tmp_path: Path, provider: ScriptedProvider) -> None:
    code, found = check(tmp_path, f"{provider.root}/v1", "code")
    assert (code, found["faults"][0]["code"]) == (3, "model_unknown")
    assert "has no model code" in found["faults"][0]["message"]
    assert "coder:7b, other" in found["faults"][0]["message"]


def test_a_key_that_the_provider_refuses_is_reported_and_not_shown(tmp_path: Path, provider: ScriptedProvider) -> None:
    code, found = check(tmp_path, f"{provider.root}/v1", "other", key="sk-wrong-0123456789")
    assert (code, found["faults"][0]["code"]) == (3, "model_key_refused")
    assert "sk-wrong" not in json.dumps(found)


def test_an_address_where_nothing_answers_is_reported(tmp_path: Path) -> None:
    code, found = check(tmp_path, "http://127.0.0.1:9/v1", "other")
    assert (code, found["faults"][0]["code"]) == (3, "model_unavailable")
    assert "http://127.0.0.1:9/v1" in found["faults"][0]["message"]


def test_a_provider_without_a_model_list_passes_with_a_note(tmp_path: Path, provider: ScriptedProvider) -> None:
    code, found = check(tmp_path, f"{provider.root}/elsewhere", "other", "responses")
    assert (code, "the name was not checked" in found["provider"]) == (0, True)


@pytest.mark.parametrize("recipe", re.findall(r"```json\n(\{.*?\n\})\n```", DOCS.read_text("utf-8"), re.DOTALL))
def test_each_recipe_of_the_documentation_is_a_policy(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "models.json").write_text(recipe)
    assert load_models(tmp_path).policy.routes
