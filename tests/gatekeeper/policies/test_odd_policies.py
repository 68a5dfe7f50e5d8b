"""An operator's file of any shape is refused by a ConfigurationError that names it: never a traceback, never a silent start."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.policy import load_agents
from gatewright.app.console.provider.settings import read_provider
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.bus import identity_limits
from gatewright.errors import ConfigurationError
from gatewright.evidence.store.policy import STORES_FILE
from gatewright.git.access.policy import REPOSITORIES_FILE
from gatewright.models.policy import load_models
from gatewright.models.transfers import TRANSFERS_FILE
from gatewright.path_patterns.code_owners import by_line, read_code_owners
from gatewright.policy_files import PolicyFile
from gatewright.profiles.policy import ENVIRONMENTS_FILE
from gatewright.resources import policy_directory, schema_directory
from gatewright.services.gatekeeper.policies.approval_policy import load_approval_policy
from gatewright.services.gatekeeper.policies.budgets import BUDGETS_FILE
from gatewright.services.gatekeeper.policies.cel_rules import load_rules
from gatewright.services.gatekeeper.policies.commands import ALLOWLIST_FILE
from gatewright.services.gatekeeper.policies.dispatch import BEATS_FILE, SHARES_FILE
from gatewright.services.gatekeeper.policies.load import FORBIDDEN_FILE, PROTECTED_FILE, _matcher, load
from gatewright.services.gatekeeper.policies.packs import PACKS_FILE
from gatewright.services.gatekeeper.policies.pools import POOLS_FILE
from gatewright.services.gatekeeper.policies.publishers import PUBLISHERS_FILE
from gatewright.services.gatekeeper.policies.roles import ROLES_FILE
from gatewright.services.gatekeeper.policies.run_policies import MEMORY_FILE, ROUTING_FILE, SUMMONS_FILE, check_routing
from tests.odd_values import FEW, Message, few_or_all, odd_bytes, odd_lines

KEY: Message = {"environment": "KEY"}
MODELS: Message = {
    "version": "1",
    "keep_texts": True,
    "providers": [
        {
            "name": "p",
            "apis": ["responses"],
            "base_url": "https://api.example/v1",
            "key": KEY,
            "headers": {"x-a": "b"},
            "proxy": "http://proxy.example",
            "server_tools": ["x"],
            "fields": ["y"],
        }
    ],
    "models": [{"name": "m", "provider": "p", "upstream": "m", "price": {"input": 1, "output": 2}, "context": 9}],
    "routes": [{"role": "worker", "pool": "x", "models": ["m"]}],
}
REPOSITORIES: Message = {
    "version": "1",
    "repositories": [
        {
            "places": ["https://git.example/"],
            "read": {"token": KEY, "user": "x", "roles": ["worker"]},
            "push": {"token": {"keyring": {"service": "s", "user": "u"}}},
            "ca_file": "/ca.pem",
            "proxy": {"url": "http://proxy.example", "user": "u", "password": KEY},
        },
        {"places": ["ssh://git.example/"], "read": {"key_file": "/key"}, "known_hosts": "/hosts"},
    ],
}
AGENTS: Message = {
    "version": "1",
    "masked": [".env"],
    "drafts": ["acp-2"],
    "agents": [
        {
            "name": "a",
            "protocol": "acp",
            "program": ["bin/a"],
            "interpreter": ["bin/node"],
            "package": "package.json",
            "versions": {"since": "1", "before": "2"},
            "variables": {"A": "@HOME@"},
            "files": {".a": "x"},
            "session_meta": {"x": 1},
            "usage_at": ["x"],
            "rounds": "resume",
            "session_files": [".a/x"],
            "session_renames": {"a": "b"},
        }
    ],
}
STORES: Message = {
    "version": "1",
    "stores": [
        {
            "places": ["s3://bundles/gw"],
            "endpoint": "https://s3.example",
            "region": "us-east-1",
            "credentials": {"access_key": KEY, "secret_key": KEY},
            "lock": {"days": 1, "mode": "governance"},
        }
    ],
}
PROVIDER: Message = {
    "version": "1",
    "issuer": "https://id.example/realm",
    "client_id": "c",
    "console": "https://console.example",
    "role_claim": "groups",
    "roles": {"staff": "viewer"},
    "scopes": ["openid"],
    "session_seconds": 60,
    "person_claim": "email",
}
#: By file: a document that is read, and what reads it in a folder.
SMALL: Mapping[str, tuple[Message, Callable[[Path], object]]] = {
    "models.json": (MODELS, load_models),
    "agents.json": (AGENTS, load_agents),
    "repositories.json": (REPOSITORIES, REPOSITORIES_FILE.load),
    "stores.json": (STORES, STORES_FILE.load),
    "environments.json": ({"version": "1", "profiles": [{"language": "python", "tools": ["python3"]}]}, ENVIRONMENTS_FILE.load),
    "transfers.json": (
        {"version": "1", "externalTransfers": "manual", "internal": ["p"], "roles": ["worker"]},
        TRANSFERS_FILE.load,
    ),
    "memory.json": ({"version": "1", "entries": 8, "max_bytes": 4096}, MEMORY_FILE.load),
    "budgets.json": (
        {
            "version": "1",
            "budgets": [{"name": "x", "publishers": ["ci"], "repositories": ["*"], "period": "day", "tokens": 5}],
        },
        BUDGETS_FILE.load,
    ),
    "summons.json": ({"version": "1", "most": 2, "roles": ["reviewer"], "timeout_sec": 5, "cost_usd": 0.5}, SUMMONS_FILE.load),
    "pools.json": (
        {
            "version": "1",
            "pools": [{"name": "x", "languages": ["python"], "agents": ["a"], "offers": ["gpu"]}],
        },
        POOLS_FILE.load,
    ),
    "shares.json": ({"version": "1", "tasks_per_repository": 1, "weights": {"default": 2}}, SHARES_FILE.load),
    "beats.json": ({"version": "1", "seconds": 60, "silent_after": 2}, BEATS_FILE.load),
    "retention.json": ({"version": "1", "ledger": {"days": 30}, "branches": {"days": 30}, "dead": {"days": 30}}, load_expiry),
    "limits.json": ({"worker": {"connections": 5}}, identity_limits.read),
    "provider.json": (PROVIDER, lambda folder: read_provider(folder / "provider.json")),
}


def example(name: str) -> Any:
    return json.loads((schema_directory() / "examples" / name / "valid" / "full.json").read_bytes())


def faults_in(folder: Path, name: str, contents: Iterator[bytes], read: Callable[[Path], object]) -> dict[str, bytes]:
    """What was raised that is no ConfigurationError, with the content that it was raised for."""
    defects: dict[str, bytes] = {}
    for content in contents:
        (folder / name).write_bytes(content)
        try:
            read(folder)
        except ConfigurationError as error:
            if not error.message:
                defects["a refusal without words"] = content[:200]
        except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
            defects[repr(error)[:200]] = content[:200]
    return defects


@few_or_all
@pytest.mark.parametrize("name", SMALL)
def test_a_file_of_any_shape_is_refused_by_name(name: str, values: tuple[object, ...], tmp_path: Path) -> None:
    document, read = SMALL[name]
    (tmp_path / name).write_text(json.dumps(document))
    read(tmp_path)
    assert faults_in(tmp_path, name, odd_bytes(document, values), read) == {}


DELIVERED: tuple[PolicyFile[Any], ...] = (
    ROLES_FILE,
    FORBIDDEN_FILE,
    ALLOWLIST_FILE,
    PACKS_FILE,
    PUBLISHERS_FILE,
)


@few_or_all
@pytest.mark.parametrize("file", DELIVERED, ids=str)
def test_a_delivered_file_with_an_odd_value_is_refused_by_name(
    file: PolicyFile[Any], values: tuple[object, ...], tmp_path: Path
) -> None:
    document = shortened(json.loads((policy_directory() / file.name).read_bytes()))
    assert faults_in(tmp_path, file.name, odd_bytes(document, values), file.load) == {}


def shortened(document: Any) -> Any:
    """The first two of each list: the others are of the same kind."""
    if isinstance(document, dict):
        return {name: shortened(value) for name, value in document.items()}
    return [shortened(each) for each in document[:2]] if isinstance(document, list) else document


@few_or_all
def test_odd_patterns_of_protected_paths_are_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    document = json.loads((policy_directory() / "protected_paths.json").read_bytes())
    document["classes"] = [{**kind, "patterns": kind["patterns"][:1]} for kind in document["classes"]]

    def read(folder: Path) -> None:
        _matcher(PROTECTED_FILE.path(folder), PROTECTED_FILE.load(folder).policy).of(b"a/b")

    assert faults_in(tmp_path, PROTECTED_FILE.name, odd_bytes(document, values), read) == {}


@few_or_all
def test_odd_rules_and_people_are_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    rules, roster = example("approval_rules.v1"), example("approver_roster.v1")
    for name, document in (("approval_rules.json", rules), ("approvers.json", roster)):
        (tmp_path / "approval_rules.json").write_text(json.dumps(rules))
        (tmp_path / "approvers.json").write_text(json.dumps(roster))
        assert faults_in(tmp_path, name, odd_bytes(document, values), load_approval_policy) == {}


@few_or_all
def test_odd_routing_is_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    document = example("routing_rules.v1")

    def read(folder: Path) -> None:
        check_routing(ROUTING_FILE.path(folder), ROUTING_FILE.load(folder).policy, ())

    assert faults_in(tmp_path, ROUTING_FILE.name, odd_bytes(document, values), read) == {}


@few_or_all
def test_owners_of_any_shape_are_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "approvers.json").write_text(json.dumps(example("approver_roster.v1")))
    lines = [
        *odd_lines(b"# people\n*.py ana\n/docs/ @release\n\n[x] ana\n", values),
        b"a" * 70_000 + b" ana\n",
        b"*" * 999 + b" ana",
    ]

    def read(folder: Path) -> None:
        load_approval_policy(folder)
        owned = read_code_owners((folder / "CODEOWNERS").read_text("utf-8", "replace"))
        by_line(owned, [b"a/b.py"])

    assert faults_in(tmp_path, "CODEOWNERS", iter(lines), read) == {}


@few_or_all
def test_a_rule_of_any_shape_is_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    rule = (policy_directory() / "organisation" / "landing-on-a-target-is-tested.cel").read_bytes()
    odd = [*odd_lines(rule, values)]
    if values is FEW:
        odd = odd[::4]
    assert faults_in(tmp_path, "a.cel", iter([*odd, b"(" * 5_000, b"1" * 5_000, b'"' * 999]), load_rules) == {}


@few_or_all
def test_an_odd_registry_is_refused_by_name(values: tuple[object, ...], tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(policy_directory(), folder)
    document = shortened(json.loads((folder / "agent_registry.json").read_bytes()))
    odd = [*odd_bytes(document, values)]
    assert faults_in(folder, "agent_registry.json", iter(odd[:: 12 if values is FEW else 1]), load) == {}
