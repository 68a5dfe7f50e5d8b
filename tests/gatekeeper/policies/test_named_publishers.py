"""Publishers that an operator names in a variable: enough to be one, and never more than what ``default`` may."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.settings import Settings


def test_a_publisher_that_the_variable_names_needs_no_entry_in_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_PUBLISHERS", "ci  bot")
    named = Settings.load().publishers
    assert named == ("ci", "bot")
    policies = load(policy_directory(), named)
    default, ci = policies.publishers.of("default"), policies.publishers.of("ci")
    assert default is not None
    assert ci is not None
    assert (ci.may_abort, ci.may_see) == ("own", "own")
    assert ci.model_dump(exclude={"name", "may_abort", "may_see"}) == default.model_dump(
        exclude={"name", "may_abort", "may_see"}
    )
    assert policies.publishers.of("other") is None
    assert policies.sha256 != load(policy_directory()).sha256


def test_the_policy_of_a_publisher_wins_over_the_variable(tmp_path: Path) -> None:
    folder = copy_of_policies(tmp_path, "ci", kinds=["request"])
    ci = load(folder, ("ci",)).publishers.of("ci")
    assert ci is not None
    assert ci.kinds == ("request",)
    assert load(folder, ("ci",)).sha256 == load(folder).sha256


def test_a_named_publisher_without_a_rule_stops_the_start(tmp_path: Path) -> None:
    folder = copy_of_policies(tmp_path, "other", without_default=True)
    with pytest.raises(ConfigurationError, match="lists neither ci nor default"):
        load(folder, ("ci",))
    with pytest.raises(ConfigurationError, match="GATEWRIGHT_PUBLISHERS"):
        load(policy_directory(), ("No Name",))


def test_the_shipped_policy_shows_foreign_runs_to_operators_only() -> None:
    listed = {rule.name: (rule.may_see, rule.may_abort) for rule in load(policy_directory()).publishers.publishers}
    assert listed == {"operator": ("any", "any"), "default": ("own", "own")}


def copy_of_policies(tmp_path: Path, name: str, *, without_default: bool = False, **rule: object) -> Path:
    folder = tmp_path / "policies"
    shutil.copytree(policy_directory(), folder)
    file = folder / "publishers.json"
    document = json.loads(file.read_text())
    operator, default = document["publishers"]
    document["publishers"] = [operator, *([] if without_default else [default]), {**default, "name": name, **rule}]
    file.write_text(json.dumps(document))
    return folder
