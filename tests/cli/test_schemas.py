"""``schema validate``: what schema a document is held against, in which form, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gatewright.contracts import codec
from gatewright.resources import schema_directory
from tests.cli.conftest import Command
from tests.factories import make_contract, make_request

EXAMPLES = schema_directory() / "examples"
OTHERS = schema_directory() / "cortexpilot" / "examples"
#: Documents with too few required fields to be told by them.
NAMELESS = {
    "submit_reply.v1",
    "merge_queues_request.v1",
    "status_request.v1",
    "events_request.v1",
    "approvals_request.v1",
    "runs_request.v1",
    "summons_request.v1",
    "bundle_request.v1",
    "context_request.v1",
}
#: Of these, the ones whose full example no other schema knows.
NAMED_WHOLE = {"bundle_request.v1", "context_request.v1", "events_request.v1", "submit_reply.v1", "summons_request.v1"}


def named(path: Path) -> str:
    return f"{path.parts[-3]}-{path.stem}"


def test_validate_recognises_requests_and_contracts_and_names_faults(gatewright: Command, tmp_path: Path) -> None:
    good = tmp_path / "contract.json"
    good.write_bytes(codec.encode(make_contract()))
    assert gatewright("schema", "validate", good, "--json").documents == [
        {"faults": [], "form": "gatewright", "schema": "task_contract.v1", "valid": True}
    ]
    bad = {**msgspec.to_builtins(make_request()), "requested_by": 7}
    said = gatewright("schema", "validate", "-", "--json", stdin=json.dumps(bad))
    assert said.exit_code == 1
    assert said.documents[0]["schema"] == "run_request.v1"
    assert [fault["pointer"] for fault in said.documents[0]["faults"]] == ["/requested_by"]
    assert gatewright("schema", "validate", good, "--schema", "error.v1").exit_code == 1
    assert gatewright("schema", "validate", good, "--schema", "no_such.v1").exit_code == 2
    assert gatewright("schema", "validate", "absent").exit_code == 2


@pytest.mark.parametrize("name", ["request.json", "contract.json"])
def test_examples_that_come_with_the_project_are_valid(gatewright: Command, name: str) -> None:
    example = Path(__file__).parents[2] / "examples" / name
    assert gatewright("schema", "validate", example).exit_code == 0


@pytest.mark.parametrize("path", sorted(OTHERS.glob("*/valid/*.json")), ids=named)
def test_a_document_that_cortexpilot_wrote_is_valid(gatewright: Command, path: Path) -> None:
    said = gatewright("schema", "validate", path, "--schema", path.parts[-3])
    assert (said.exit_code, "CortexPilot's form" in said.out) == (0, True)
    assert gatewright("schema", "validate", path, "--json").documents == [
        {"faults": [], "form": "cortexpilot", "schema": path.parts[-3], "valid": True}
    ]


@pytest.mark.parametrize("path", sorted(OTHERS.glob("*/invalid/*.json")), ids=named)
def test_a_document_that_cortexpilot_would_refuse_is_not(gatewright: Command, path: Path) -> None:
    said = gatewright("schema", "validate", path, "--schema", path.parts[-3], "--json")
    assert said.exit_code == 1
    assert [len(document["faults"]) for document in said.documents] == [1]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/valid/*.json")), ids=named)
def test_a_document_is_recognised_by_its_fields(gatewright: Command, path: Path) -> None:
    said = gatewright("schema", "validate", path, "--json")
    name = path.parts[-3]
    if name in NAMELESS and not (path.stem == "full" and name in NAMED_WHOLE):
        assert said.exit_code == 2
        assert "--schema" in said.documents[0]["error"]["message"]
    else:
        assert (said.exit_code, said.documents[0]["schema"]) == (0, name)


@pytest.mark.parametrize("stem", ["cortexpilot_minimal", "full"])
def test_an_incomplete_contract_is_still_checked_as_a_contract(gatewright: Command, stem: str) -> None:
    contract = json.loads((EXAMPLES / "task_contract.v1" / "valid" / f"{stem}.json").read_bytes())
    for lost in set(contract) - {"task_id"}:
        lacking = {name: value for name, value in contract.items() if name != lost}
        said = gatewright("schema", "validate", "-", "--json", stdin=json.dumps(lacking))
        assert said.documents[0]["schema"] == "task_contract.v1", lost
