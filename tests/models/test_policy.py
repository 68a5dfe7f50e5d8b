"""``models.json``: which role may use which models, in which order, and what a wrong file says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Budget
from gatewright.errors import ConfigurationError, DeniedError, MalformedError
from gatewright.models.policy import ModelsPolicy, load_models
from gatewright.resources import policy_directory

POLICY: dict[str, Any] = {
    "version": "1",
    "providers": [{"name": "a", "apis": ["messages"], "base_url": "https://a.example"}],
    "models": [{"name": name, "provider": "a", "price": None} for name in ("big", "small", "spare")],
    "routes": [
        {"role": "worker", "models": ["big", "spare"]},
        {"role": "worker", "pool": "gpu", "models": ["small"]},
        {"role": "pm", "models": ["small", "spare"]},
    ],
}


def policy() -> ModelsPolicy:
    return ModelsPolicy.model_validate(POLICY)


def test_a_role_gets_its_route_and_what_stands_in_for_each_model() -> None:
    grant = policy().grant("worker")
    assert grant.default == "big"
    assert dict(grant.routes) == {"big": ("big", "spare"), "spare": ("spare",)}


def test_a_pool_has_its_own_route_or_that_of_its_role() -> None:
    assert policy().grant("worker", pool="gpu").default == "small"
    assert policy().grant("worker", pool="other").default == "big"


def test_a_contract_that_names_a_model_gets_that_one_alone() -> None:
    assert dict(policy().grant("pm", model="spare").routes) == {"spare": ("spare",)}
    assert dict(policy().grant("pm", model="small").routes) == {"small": ("small", "spare")}


@pytest.mark.parametrize(("role", "model"), [("pm", "big"), ("reviewer", None), ("reviewer", "big")])
def test_a_model_that_is_not_of_the_route_is_refused(role: Any, model: str | None) -> None:
    with pytest.raises(DeniedError) as caught:
        policy().grant(role, model=model)
    assert caught.value.reason == "model_not_allowed"


def test_a_model_that_there_is_not_is_bad_input() -> None:
    with pytest.raises(MalformedError) as caught:
        policy().grant("pm", model="gpt-0")
    assert caught.value.reason == "model_unknown"


def test_only_prices_that_could_be_asked_for_must_be_known() -> None:
    changed = copy.deepcopy(POLICY)
    changed["models"][1]["price"] = {"input": 1, "output": 2}
    loaded = ModelsPolicy.model_validate(changed)
    assert loaded.grant("worker", pool="gpu", budget=Budget(cost_usd=1.0)).default == "small"
    with pytest.raises(DeniedError, match="spare"):
        loaded.grant("pm", budget=Budget(cost_usd=1.0))


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ("models", {"name": "big", "provider": "a", "price": None}, "big is listed 2 times"),
        ("models", {"name": "new", "provider": "b", "price": None}, "names b, which is no provider"),
        ("models", {"name": "new", "provider": "a"}, "price"),
        ("models", {"name": "new", "provider": "a", "price": {"input": -1, "output": 1}}, "price"),
        ("models", {"name": "new", "provider": "a", "price": {"input": 1}}, "output"),
        ("models", {"name": "a b", "provider": "a", "price": None}, "name"),
        ("routes", {"role": "worker", "models": ["big"]}, "listed 2 times"),
        ("routes", {"role": "gatekeeper", "models": ["big"]}, "role"),
        ("routes", {"role": "testrunner", "models": ["big"]}, "role"),
        ("routes", {"role": "reviewer", "models": ["none"]}, "names none, which is no model"),
        ("routes", {"role": "reviewer", "models": []}, "models"),
        ("routes", {"role": "reviewer", "models": ["big", "big"]}, "listed 2 times"),
        ("providers", {"name": "b", "apis": [], "base_url": "https://b.example"}, "apis"),
        ("providers", {"name": "b", "apis": ["soap"], "base_url": "https://b.example"}, "apis"),
        ("providers", {"name": "b", "apis": ["gemini"], "base_url": "https://b.example", "more": 1}, "more"),
    ],
)
def test_an_invalid_policy_is_refused_with_a_pointer(tmp_path: Path, place: str, change: dict[str, Any], words: str) -> None:
    changed = copy.deepcopy(POLICY)
    changed[place].append(change)
    (tmp_path / "models.json").write_text(json.dumps(changed))
    with pytest.raises(ConfigurationError) as caught:
        load_models(tmp_path)
    assert words in caught.value.message
    assert "models.json" in caught.value.message


def test_the_shipped_policy_has_models_for_every_role_without_prices() -> None:
    loaded = load_models(policy_directory())
    for role in ("pm", "techlead", "worker", "reviewer"):
        assert loaded.policy.grant(role).default
    assert {model.price for model in loaded.policy.models} == {None}
    assert all(provider.key is not None for provider in loaded.policy.providers)


def test_a_folder_without_models_lies_over_the_delivered_ones(tmp_path: Path) -> None:
    assert load_models(tmp_path) == load_models(policy_directory())


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_models(tmp_path / "nowhere")
