"""Every example beside the schemas: what is called valid is accepted, what is called invalid is refused for one reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatewright.contracts import TaskContract, codec, schemas
from gatewright.errors import MalformedError
from gatewright.resources import schema_directory

EXAMPLES = schema_directory() / "examples"
VALID = sorted(EXAMPLES.glob("*/valid/*.json"))
INVALID = sorted(EXAMPLES.glob("*/invalid/*.json"))
#: The fields of the original format; ours are optional fields beside these.
ORIGINAL_FIELDS = {
    *("task_id", "task_type", "parent_task_id", "owner_agent", "assigned_agent", "inputs", "required_outputs"),
    *("allowed_paths", "forbidden_actions", "acceptance_tests", "tool_permissions", "policy_pack", "timeout_retry"),
    *("rollback", "evidence_links", "log_refs", "handoff_chain", "mcp_tool_set", "audit_only", "browser_policy"),
    *("runtime_options", "role_contract"),
}


def named(path: Path) -> str:
    return f"{path.parts[-3]}-{path.stem}"


@pytest.mark.parametrize("path", VALID, ids=named)
def test_a_valid_example_is_accepted_by_schema_and_struct(path: Path) -> None:
    name, data = path.parts[-3], path.read_bytes()
    assert schemas.fault_report(name, data) == ()
    document = codec.decode_named(data, name)
    canonical = codec.encode(document)
    assert codec.decode_named(canonical, name) == document
    assert codec.encode(codec.decode_named(canonical, name)) == canonical
    assert schemas.fault_report(name, canonical) == ()


@pytest.mark.parametrize("path", INVALID, ids=named)
def test_an_invalid_example_is_refused_for_exactly_one_reason(path: Path) -> None:
    name, data = path.parts[-3], path.read_bytes()
    assert not schemas.validator(name).is_valid(json.loads(data))
    with pytest.raises(MalformedError) as refusal:
        codec.decode_named(data, name)
    assert refusal.value.faults == schemas.fault_report(name, data)
    (fault,) = refusal.value.faults
    assert fault.pointer
    assert fault.pointer in str(refusal.value)


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_every_schema_has_enough_examples(name: str) -> None:
    valid = {path.stem for path in VALID if path.parts[-3] == name}
    invalid = [path for path in INVALID if path.parts[-3] == name]
    assert {"minimal", "full"} <= valid
    assert len(invalid) >= 4


def test_there_are_no_examples_of_nothing() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == set(codec.DOCUMENTS)


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_minimal_examples_have_required_fields_only_and_full_ones_all(name: str) -> None:
    schema = schemas.load(name)
    minimal = json.loads((EXAMPLES / name / "valid" / "minimal.json").read_bytes())
    full = json.loads((EXAMPLES / name / "valid" / "full.json").read_bytes())
    assert set(minimal) == set(schema.get("required", ()))
    assert set(full) == set(schema["properties"])


def test_a_contract_of_the_original_format_is_read_whole() -> None:
    path = EXAMPLES / "task_contract.v1" / "valid" / "cortexpilot_full.json"
    written = json.loads(path.read_bytes())
    assert set(written) == ORIGINAL_FIELDS
    assert written | json.loads(codec.encode(codec.decode(path.read_bytes(), TaskContract))) == written


def test_a_contract_of_the_original_format_needs_none_of_our_fields() -> None:
    schema = schemas.load("task_contract.v1")
    assert set(schema["required"]) <= ORIGINAL_FIELDS <= set(schema["properties"])
    minimal = json.loads((EXAMPLES / "task_contract.v1" / "valid" / "cortexpilot_minimal.json").read_bytes())
    assert set(minimal) == set(schema["required"])
