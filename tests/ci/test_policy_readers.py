"""Which process reads which policy file: the table and the sources agree; the page is generated from the table."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from gatewright.policy_files import COMMAND_LINE, POLICY_FILES, PolicyFile
from tests.reason_codes import ROOT

#: The sources of each process that reads policies besides the gatekeeper.
SOURCES = {role: f"services/{role}" for role in ("pm", "techlead", "worker", "reviewer", "testrunner")}
SOURCES[COMMAND_LINE] = "shared/gatewright/app/cli"
#: What a process calls to read a file, by itself or through the library.
LOADERS = {
    "agents.json": r"load_agents\(",
    "models.json": r"load_models\(|consult",
    "environments.json": r"ENVIRONMENTS_FILE\.load\(",
    "repositories.json": r"open_mirrors\(|REPOSITORIES_FILE\.load\(",
    "stores.json": r"STORES_FILE\.load\(",
    "forges.json": r"load_forges\(",
    "egress.json": r"EGRESS_FILE\.load_if_present\(",
    "research.json": r"RESEARCH_FILE\.load\(",
    "sinks.json": r"SINKS_FILE\.load\(",
    "deployments.json": r"DEPLOYMENTS_FILE\.load\(",
    "retention.json": r"load_expiry\(",
}
READERS = {each.name: each.also_read_by for each in POLICY_FILES}
#: They are not read by a ``PolicyFile``: the roster has a code of its own for whatever is wrong, and the other is no JSON.
READ_APART = {"approvers.json", "CODEOWNERS"}


def sources_of(process: str) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted((ROOT / SOURCES[process]).rglob("*.py")))


def declared_files() -> list[PolicyFile[Any]]:
    """Every ``PolicyFile`` of the product: its module is imported, and what is declared there taken."""
    declares = re.compile(r"^[A-Z]+_FILE\b.*= PolicyFile\(", re.MULTILINE)
    names: set[str] = set()
    for folder, package in ((ROOT / "shared/gatewright", "gatewright"), (ROOT / "services", "gatewright.services")):
        paths = (path for path in folder.rglob("*.py") if declares.search(path.read_text("utf-8")))
        names |= {".".join((package, *path.relative_to(folder).with_suffix("").parts)) for path in paths}
    found = {id(value): value for name in names for value in vars(importlib.import_module(name)).values()}
    return [value for value in found.values() if isinstance(value, PolicyFile)]


@pytest.mark.parametrize("file", LOADERS)
def test_the_table_lists_the_processes_whose_sources_read_a_file(file: str) -> None:
    assert {process for process in SOURCES if re.search(LOADERS[file], sources_of(process))} == READERS[file]


def test_every_reader_of_models_also_reads_transfers() -> None:
    """``load_models`` reads both."""
    assert "TRANSFERS_FILE.load_if_present(" in (ROOT / "shared/gatewright/models/policy.py").read_text("utf-8")
    assert READERS["transfers.json"] == READERS["models.json"]


def test_every_file_that_others_read_has_a_loader_here() -> None:
    assert {name for name, processes in READERS.items() if processes} == {*LOADERS, "transfers.json"}


def test_exactly_the_policy_files_are_declared_with_their_model() -> None:
    declared = declared_files()
    assert sorted(file.name for file in declared) == sorted(READERS.keys() - READ_APART)
    required = {each.name for each in POLICY_FILES if each.presence == "required"}
    assert [file.name for file in declared if file.default is not None and file.name in required] == []
