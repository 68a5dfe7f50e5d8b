"""Search services of research in the Helm chart: the example of the guide opens a way for workers, and for nobody else."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.compose.pods import rendered
from tests.deploy.shipped import ROOT

pytestmark = pytest.mark.long

_COMPONENT = "app.kubernetes.io/component"


def documented_values() -> dict[str, Any]:
    """Return the values of the guide's example."""
    section = (ROOT / "docs" / "kubernetes.md").read_text().partition("## Search services")[2]
    example = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert example is not None
    values: dict[str, Any] = yaml.safe_load(example[1])
    return values


def components_that_reach(values: dict[str, Any], rule: dict[str, Any]) -> set[str]:
    """Return the components whose own network policy has the egress rule."""
    policies = [each["spec"] for each in rendered(values) if each["kind"] == "NetworkPolicy"]
    return {
        policy["podSelector"]["matchLabels"].get(_COMPONENT, "all") for policy in policies if rule in policy.get("egress", ())
    }


def test_only_workers_reach_the_search_services_of_the_guide() -> None:
    values = documented_values()
    (rule,) = values["research"]["egress"]
    assert components_that_reach(values, rule) == {"worker"}
    values["roles"] = {"worker": {"outside": False}}
    assert components_that_reach(values, rule) == {"worker"}


@pytest.mark.parametrize("unread", [{"policies": {"configMap": ""}}, {"networkPolicies": {"enabled": False}}])
def test_rules_that_nothing_reads_are_refused(unread: dict[str, Any]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(documented_values() | unread)
    assert next(iter(unread)) in refused.value.stderr
