"""Which role reads which policy file: the table, the page and the sources agree."""

from __future__ import annotations

import re

import pytest

from gatewright.policy_files import FILES, OPTIONAL, READ_BY_ROLES
from tests.reason_codes import ROOT

ROLES = ("pm", "techlead", "worker", "reviewer", "testrunner")
#: What a role calls to read a file, by itself or through the library.
LOADERS = {
    "agents.json": r"load_agents\(",
    "models.json": r"load_models\(|consult",
    "environments.json": r"load_environments\(",
    "repositories.json": r"open_mirrors\(",
}


def sources_of(role: str) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "services" / role).rglob("*.py")))


@pytest.mark.parametrize("file", LOADERS)
def test_the_table_lists_the_roles_whose_sources_read_a_file(file: str) -> None:
    assert {role for role in ROLES if re.search(LOADERS[file], sources_of(role))} == READ_BY_ROLES[file]


def test_whoever_reads_models_reads_transfers() -> None:
    """``load_models`` reads both."""
    assert "load_transfers(" in (ROOT / "shared/gatewright/models/policy.py").read_text("utf-8")
    assert READ_BY_ROLES["transfers.json"] == READ_BY_ROLES["models.json"]


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs/policies.md").read_text("utf-8")
    for file, roles in READ_BY_ROLES.items():
        listed = re.search(rf"^\| `{re.escape(file)}` \| ([a-z, ]+) \| ", page, re.MULTILINE)
        assert listed is not None, file
        assert set(listed[1].split(", ")) == roles
    assert READ_BY_ROLES.keys() <= {*FILES, *OPTIONAL}
