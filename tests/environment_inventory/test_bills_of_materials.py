"""The exports, by the validators of the two projects, and the same bytes each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from msgspec.structs import replace
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from gatewright.app.bills_of_materials import EXPORTS, cyclonedx, spdx
from gatewright.contracts import EnvironmentInventory
from gatewright.contracts.inventory import InventoryPackage, InventoryTree
from gatewright.environment_inventory.reading import read_inventory
from tests.environment_inventory.installed import SITE, install, make_prefix
from tests.environment_inventory.test_other_packages import crate, module, node_project

RUN, AT = "run-00112233445566778899", "2026-01-02T03:04:05.678Z"


def inventory(folder: Path) -> EnvironmentInventory:
    """Packages of every ecosystem, with licences that SPDX knows and others, a planted file and an altered one."""
    prefix = make_prefix(folder / "python")
    install(prefix, "known", metadata="License-Expression: (MIT)\n")
    install(prefix, "odd", metadata="License: my own; see https://example.org/ <b>\n")
    install(prefix, "mixed", metadata="License: MIT AND NoSuch\n")
    (prefix / SITE / "planted.py").touch()
    (prefix / SITE / "odd.py").touch()
    (prefix / SITE / "odd.py").write_text("changed = 1\n")
    crate(folder / "rust")
    places = (prefix, node_project(folder / "node"), folder / "rust", module(folder / "go"))
    return EnvironmentInventory(trees=tuple(map(read_inventory, places)))


NOTHING = InventoryTree(
    ecosystem="python",
    version="",
    packages=(),
    unknown_files=0,
    unknown=(),
    altered_files=0,
    altered=(),
    faults=(),
)
EMPTY = EnvironmentInventory(trees=(NOTHING,))


def faults(kind: str, data: bytes, folder: Path) -> list[str]:
    if kind == "cyclonedx":
        found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode())
        return [] if found is None else [str(found)[:500]]
    place = folder / "document.spdx.json"
    place.write_bytes(data)
    return [each.validation_message for each in validate_full_spdx_document(parse_file(str(place)))]


@pytest.mark.parametrize("kind", sorted(EXPORTS))
def test_an_export_is_valid_by_its_projects_own_validator(kind: str, tmp_path: Path) -> None:
    for each in (inventory(tmp_path), EMPTY):
        assert faults(kind, EXPORTS[kind](each, RUN, AT), tmp_path) == []


@pytest.mark.parametrize(("kind", "good", "bad"), [("cyclonedx", b'"type"', b'"tip"'), ("spdx", b'"SPDX-2.3"', b'"2.3"')])
def test_the_validators_find_a_fault(kind: str, good: bytes, bad: bytes, tmp_path: Path) -> None:
    assert faults(kind, EXPORTS[kind](EMPTY, RUN, AT).replace(good, bad), tmp_path) != []


@pytest.mark.parametrize("kind", sorted(EXPORTS))
def test_the_same_inventory_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    found = inventory(tmp_path)
    assert EXPORTS[kind](found, RUN, AT) == EXPORTS[kind](found, RUN, AT)
    assert EXPORTS[kind](found, RUN, AT) != EXPORTS[kind](EMPTY, RUN, AT)


def test_cyclonedx_has_every_package_and_what_is_unexplained(tmp_path: Path) -> None:
    found = inventory(tmp_path)
    document = json.loads(cyclonedx(found, RUN, AT))
    listed = {each.purl for tree in found.trees for each in tree.packages}
    assert {each["purl"] for each in document["components"]} == listed
    assert document["metadata"]["timestamp"].startswith("2026-01-02T03:04:05")
    properties = {(each["name"], each["value"]) for each in document["properties"]}
    assert {("gatewright:run", RUN), ("gatewright:unknown", f"{SITE}/planted.py")} <= properties
    licences = {each["name"]: each.get("licenses") for each in document["components"]}
    assert licences["known"] == [{"expression": "(MIT)"}]
    assert licences["odd"] == [{"license": {"name": "my own; see https://example.org/ <b>"}}]
    (archive,) = [each["hashes"] for each in document["components"] if each["purl"] == "pkg:cargo/needed@1.0.0"]
    assert archive == [{"alg": "SHA-256", "content": "a" * 64}]


def test_spdx_keeps_a_licence_that_it_does_not_know_as_a_comment(tmp_path: Path) -> None:
    packages = {each["name"]: each for each in json.loads(spdx(inventory(tmp_path), RUN, AT))["packages"]}
    assert packages["known"]["licenseDeclared"] == "(MIT)"
    for name, licence in (("odd", "my own; see https://example.org/ <b>"), ("mixed", "MIT AND NoSuch")):
        assert packages[name]["licenseDeclared"] == "NOASSERTION"
        assert f"licence: {licence}" in packages[name]["comment"]


@pytest.mark.parametrize("kind", sorted(EXPORTS))
@pytest.mark.parametrize("licence", ["(" * 200, "MIT OR", "a WITH b WITH c", "LicenseRef-x", "<script>", "MIT\tAND", "\u202e"])
def test_a_hostile_licence_never_ends_an_export(kind: str, licence: str, tmp_path: Path) -> None:
    package = InventoryPackage(name="a", version="", purl="pkg:pypi/a", licence=licence)
    found = EnvironmentInventory(trees=(replace(NOTHING, packages=(package,)),))
    assert faults(kind, EXPORTS[kind](found, RUN, AT), tmp_path) == []
