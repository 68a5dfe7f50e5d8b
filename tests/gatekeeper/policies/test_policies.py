"""Policy files: a broken one stops the gatekeeper, and says where."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from gatewright.contracts.vocabulary import Shell
from gatewright.errors import ConfigurationError
from gatewright.permissions import (
    FILESYSTEM_ORDER,
    NETWORK_ORDER,
    SHELL_MEANINGS,
    SHELL_ORDER,
    approval_policy,
    is_wider,
    narrower,
)
from gatewright.policy_files import POLICY_FILES, REQUIRED
from gatewright.resources import policy_directory, schema_directory
from gatewright.services.gatekeeper.policies.full_access import names_full_access
from gatewright.services.gatekeeper.policies.load import Policies, load
from gatewright.services.gatekeeper.policies.roles import CEILINGS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(policy_directory(), tmp_path / "policies"))


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"version": "1"}', b"\xff\xfe"])
def test_a_broken_policy_file_is_refused_by_name(folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=name):
        load(folder)


def test_an_unknown_field_is_refused(folder: Path) -> None:
    path = folder / "command_allowlist.json"
    path.write_text(path.read_text().replace('"uses"', '"use"', 1))
    with pytest.raises(ConfigurationError, match="command_allowlist"):
        load(folder)


def edit(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    path = folder / name
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("command_allowlist.json", lambda value: value["commands"].clear()),
        ("forbidden_actions.json", lambda value: value["actions"].clear()),
        ("forbidden_actions.json", lambda value: value.update(mcp_tools=[])),
        ("agent_registry.json", lambda value: value["agents"].clear()),
        ("agent_registry.json", lambda value: value["agents"].append(value["agents"][0])),
        ("agent_registry.json", lambda value: value["role_contracts"].append(value["role_contracts"][0])),
        ("agent_registry.json", lambda value: value.update(comment="mine")),
        ("protected_paths.json", lambda value: value["classes"].pop(0)),
        ("protected_paths.json", lambda value: value["classes"].reverse()),
        ("protected_paths.json", lambda value: value["classes"][1].update(opened_by="nothing")),
        ("protected_paths.json", lambda value: value["classes"][0].update(opened_by="scope.allow_protected_paths")),
        ("protected_paths.json", lambda value: value["classes"][3].update(opened_by="scope.allow_protected_paths")),
        ("protected_paths.json", lambda value: value["classes"][0]["patterns"].clear()),
        ("roles.json", lambda value: value["roles"].pop()),
        ("roles.json", lambda value: value["roles"].append(value["roles"][0])),
        ("roles.json", lambda value: value["roles"][0]["mcp_tools"].append("browser")),
        ("roles.json", lambda value: value["roles"][0].update(may_dispatch_to=["NOBODY"])),
        ("policy_packs.json", lambda value: value.pop("high")),
        ("policy_packs.json", lambda value: value["high"].pop("strict_acceptance")),
        ("policy_packs.json", lambda value: value["high"].update(network="everything")),
        ("policy_packs.json", lambda value: value.update(default="none")),
    ],
)
def test_a_policy_that_would_let_too_much_through_stops_the_gatekeeper(
    name: str, change: Callable[[Any], object], folder: Path
) -> None:
    edit(folder, name, change)
    with pytest.raises(ConfigurationError, match=name if name != "forbidden_actions.json" else "json"):
        load(folder)


@pytest.mark.parametrize("stem", ["full", "role_contracts_as_object"])
def test_a_registry_in_another_systems_form_grants_nothing(stem: str, folder: Path) -> None:
    """Its tools and its downstream roles would be rules there; here they would be read and not kept."""
    example = schema_directory() / "cortexpilot" / "examples" / "agent_registry.v1" / "valid" / f"{stem}.json"
    shutil.copyfile(example, folder / "agent_registry.json")
    with pytest.raises(ConfigurationError, match=r"agent_registry\.json: .*CortexPilot's form.*/(role_contracts|agents/0)"):
        load(folder)


def test_every_change_of_a_policy_changes_the_digest(folder: Path, policies: Policies) -> None:
    digests = {policies.sha256}
    for name in REQUIRED:
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
        digests.add(load(folder).sha256)
    assert len(digests) == len(REQUIRED) + 1


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b".env", "sacred"),
        (b"config/.ENV", "sacred"),
        (b".github/workflows/ci.yml", "ci"),
        (b"deep/.git/config", "sacred"),
        (b"server.KEY", "sacred"),
        (b"config/secrets.YAML", "sacred"),
        (b"credentials", "sacred"),
        (b"shared/gatewright/secrets/rules.py", None),
        (b"services/reviewer/checks/secrets.py", None),
        (b"docs/secrets.md", None),
        (b"src/credentials/store.py", None),
        (b"certificates/authority.pem", None),
        (b"keys/id_ed25519.pub", None),
        (b"keys/id_ed25519", "sacred"),
        (b".env.sample", None),
        (b".npmrc", "dependencies"),
        (b"tests/test_a.py", "protected"),
        (b"src/pkg/test_a.py", "protected"),
        (b"pyproject.toml", "dependencies"),
        (b"Makefile", "runner"),
        (b"src/Makefile", None),
        (b"tox.ini", "runner"),
        (b"src/.Pytest.INI", "runner"),
        (b".cargo/config.toml", "runner"),
        (b"vite.config.ts", None),
        (b"app/migrations/0001.py", "migrations"),
        (b"src/app.py", None),
        (b"src/environment.py", None),
        (b"\xff\xfe/.env", "sacred"),
    ],
)
def test_paths_fall_into_their_class(path: bytes, kind: str | None, policies: Policies) -> None:
    assert [found.name for found in policies.path_classes(path)] == ([kind] if kind else [])


def test_no_change_writes_a_file_of_the_policy_folder(policies: Policies) -> None:
    """A repository may hold the folder that judges it. The files are those of the table, and any that the pages name."""
    product = [path.read_text("utf-8") for path in (ROOT / "shared" / "gatewright").rglob("*.py")]
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")]
    named = {name for text in (*product, *pages) for name in re.findall(r"policies/(\w+\.json)", text)}
    files = named | {each.name for each in POLICY_FILES if each.name.endswith(".json")}
    judged = {name: [found.name for found in policies.path_classes(f"policies/{name}".encode())] for name in files}
    assert {name: found for name, found in judged.items() if found != ["sacred"]} == {}


def test_a_path_of_two_classes_needs_both_opened(policies: Policies) -> None:
    assert [kind.name for kind in policies.path_classes(b"tests/requirements.txt")] == ["protected", "dependencies"]


def test_classes_are_those_that_a_forgiving_file_system_would_see(policies: Policies) -> None:
    for path in ("a/.ENV", "a/.env.", "a/.e\u200cnv", "\u212aeys/SERVER.\u212aEY"):
        assert [kind.name for kind in policies.path_classes(path.encode())] == ["sacred"], path


@pytest.mark.parametrize(
    ("shell", "policy"), [("deny", None), ("never", "never"), ("on-request", "on-request"), ("untrusted", "untrusted")]
)
def test_a_shell_permission_is_the_approval_policy_of_the_specification(shell: Shell, policy: str | None) -> None:
    assert approval_policy(shell) == policy


def test_a_shell_permission_that_is_not_given_is_deny() -> None:
    assert approval_policy(None) is None
    assert set(SHELL_MEANINGS) == set(get_args(Shell))


@pytest.mark.parametrize(
    ("asked", "granted", "narrow"),
    [
        ("on-request", "never", "never"),
        ("untrusted", "never", "deny"),
        ("never", "untrusted", "deny"),
        ("on-request", "untrusted", "untrusted"),
        ("deny", "on-request", "deny"),
        ("never", "never", "never"),
    ],
)
def test_the_narrower_of_two_shell_permissions_is_wider_than_neither(asked: Shell, granted: Shell, narrow: Shell) -> None:
    assert narrower(SHELL_ORDER, asked, granted) == narrow


@pytest.mark.parametrize("order", [FILESYSTEM_ORDER, SHELL_ORDER, NETWORK_ORDER])
def test_any_two_permissions_have_one_widest_in_common(order: Mapping[str, frozenset[str]]) -> None:
    for some in order:
        for other in order:
            common = narrower(order, some, other)
            assert not is_wider(order, common, some)
            assert not is_wider(order, common, other)
            assert common == narrower(order, other, some)


def test_the_role_matrix_is_that_of_the_specification(policies: Policies) -> None:
    """Specification 8, mechanism 5."""
    writes = ("workspace-write", "never", "deny")
    reads = ("read-only", "never", "deny")
    expected = {"PM": reads, "TECH_LEAD": reads, "WORKER": writes, "REVIEWER": reads, "TEST_RUNNER": writes}
    expected |= dict.fromkeys(("SEARCHER", "RESEARCHER"), ("workspace-write", "never", "allow"))
    given = {
        agent.role: (agent.defaults.sandbox, agent.defaults.approval_policy, agent.defaults.network)
        for agent in policies.registry.agents
    }
    assert given == expected
    for role, ceiling in CEILINGS.items():
        assert (ceiling.filesystem, ceiling.shell, ceiling.network) == expected.get(role, writes)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--sandbox danger-full-access", True),
        ("sandbox_mode='danger-full-access'", True),
        ("--dangerously-bypass-approvals-and-sandbox", True),
        ("--permission-mode=bypassPermissions", True),
        ("codex exec --full-auto", True),
        ("--yolo", True),
        ("--yolo=1", True),
        ("ruff check src", False),
        ("python tools/yolo.py", False),
        ("grep -c dangerous README.md", False),
        ("", False),
    ],
)
def test_words_that_would_switch_the_sandbox_off_are_known(words: str, found: bool) -> None:
    assert names_full_access(words) == found
