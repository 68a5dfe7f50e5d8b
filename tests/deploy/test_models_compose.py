"""The deployment with models and agents: keys reach the roles that call models, as files, and nothing of it can be written."""

from __future__ import annotations

import re
from typing import Any

from gatewright.agents.installation import SETTING
from gatewright.app.stack.supervisor import MODEL_ROLES
from gatewright.models.policy import load_models
from gatewright.policy_files import EnvironmentKey
from gatewright.resources import policy_directory
from gatewright.service.settings import CONSULTING
from tests.deploy.shipped import ROOT, read_yaml

MODELS = ROOT / "deploy" / "compose" / "models.yml"
GUIDE = ROOT / "docs" / "deploy.md"


def shipped_services() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(MODELS)["services"]
    return found


def wanted() -> set[str]:
    """The variables by which the policy that ships would have keys as files."""
    keys = [provider.key for provider in load_models(policy_directory()).policy.providers]
    return {key.names[1] for key in keys if isinstance(key, EnvironmentKey)}


def test_only_roles_that_call_models_receive_the_policy_keys() -> None:
    services = shipped_services()
    assert set(services) == set(MODEL_ROLES)
    for name, service in services.items():
        assert {each for each in service["environment"] if "_KEY" in each} == wanted(), name
        places = {service["environment"][each] for each in wanted()}
        assert places == {f"/run/secrets/{secret}" for secret in service["secrets"]}, name
    base = read_yaml(ROOT / "docker-compose.yml")["services"]
    assert not [name for name, service in base.items() if "secrets" in service]


def test_a_key_is_a_file_of_the_host_and_in_no_variable() -> None:
    for name, secret in read_yaml(MODELS)["secrets"].items():
        assert secret == {"file": f"${{GATEWRIGHT_{name.upper()}_KEY:-/dev/null}}"}
    values = [value for service in shipped_services().values() for value in service["environment"].values()]
    assert not any(re.search(r"\$\{\w*KEY", str(value)) for value in values)


def test_the_operator_names_the_consulting_roles_and_they_reach_providers() -> None:
    services = shipped_services()
    for role in CONSULTING:
        assert services[role]["environment"]["GATEWRIGHT_CONSULT"] == "${GATEWRIGHT_CONSULT:-pm}"
    assert services["pm"]["networks"] == ["bus", "outside"]
    # The pm looks at the baseline: it needs the repository, and a place for its mirror.
    assert [volume.rpartition(":/")[2] for volume in services["pm"]["volumes"]] == [
        "var/lib/gatewright",
        "repositories:ro",
        "prompts:ro",
    ]


def test_installations_and_prompts_are_mounted_read_only_where_configured() -> None:
    services = shipped_services()
    assert services["worker"]["environment"][SETTING] == "/agents"
    for name, service in services.items():
        mounted = {volume.split(":/", 1)[1] for volume in service["volumes"]}
        assert service["environment"]["GATEWRIGHT_PROMPTS"] == "/prompts"
        assert "prompts:ro" in mounted, name
        assert ("agents:ro" in mounted) is (name == "worker"), name
        assert all(each.endswith(":ro") for each in mounted - {"var/lib/gatewright"}), name


def test_the_image_has_the_places_that_are_mounted() -> None:
    folders = (ROOT / "Dockerfile").read_text().partition("install --directory")[2].partition("&& for")[0].split()
    assert {"/prompts", "/agents"} <= set(folders)


def test_the_guide_names_every_variable() -> None:
    guide = GUIDE.read_text()
    named = set(re.findall(r"\$\{(GATEWRIGHT_\w+)", MODELS.read_text()))
    assert sorted(name for name in named if f"`{name}`" not in guide) == []
