"""What pydantic finds wrong is put in words that a person can act on, and that repeat no value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gatewright.errors import ConfigurationError
from gatewright.models.policy import load_models
from gatewright.resources import policy_directory
from gatewright.validation_faults import fault_lines, validation_faults

_SECRET = "sk-abcdef1234567890"

Change = Callable[[dict[str, Any]], object]


def refused(tmp_path: Path, text: str) -> str:
    (tmp_path / "models.json").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_models(tmp_path)
    return caught.value.message.removeprefix(f"{tmp_path / 'models.json'}: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda policy: policy["models"][0].pop("price"), "models[0].price: is missing"),
        (lambda policy: policy["models"][0].update(pricee=None), "models[0].pricee: is not a field that is known here"),
        (lambda policy: policy.pop("providers"), "providers: is missing"),
        (lambda policy: policy.update(routes="x"), "routes: should be a valid array"),
        (lambda policy: policy["providers"][0].update(key=_SECRET), "providers[0].key: should be an object"),
        (lambda policy: policy["routes"][0].update(models=["nope"]), "the route of pm names nope, which is no model"),
    ],
    ids=["missing", "unknown", "no_providers", "text_for_list", "key_in_the_file", "unknown_model"],
)
def test_a_wrong_policy_names_the_place_in_one_line(tmp_path: Path, change: Change, words: str) -> None:
    policy = json.loads((policy_directory() / "models.json").read_text())
    change(policy)
    assert refused(tmp_path, json.dumps(policy)) == words


def test_a_policy_that_is_no_json_names_line_and_column(tmp_path: Path) -> None:
    assert refused(tmp_path, "{bad") == "invalid JSON: key must be a string at line 1 column 2"


def test_a_key_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    policy = json.loads((policy_directory() / "models.json").read_text())
    policy["providers"][0] |= {"key": _SECRET, _SECRET.replace("-", "_"): 1, "base_url": f"https://{_SECRET}@host/"}
    policy["models"][0]["price"] = _SECRET
    policy["version"] = _SECRET
    words = refused(tmp_path, json.dumps(policy))
    assert "models[0].price" in words
    assert _SECRET not in words


class _Many(BaseModel):
    numbers: tuple[int, ...]


def test_many_faults_are_listed_up_to_a_bound() -> None:
    with pytest.raises(ValidationError) as caught:
        _Many(numbers=("x",) * 1000)  # type: ignore[arg-type]
    lines = fault_lines(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (11, "and 990 more")
    assert validation_faults(caught.value)[3].pointer == "/numbers/3"
