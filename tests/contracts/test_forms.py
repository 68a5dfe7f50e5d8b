"""Documents as CortexPilot writes them: they are checked whole, told from Gatewright's, and never taken for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gatewright.contracts import codec, forms, schemas
from gatewright.contracts.forms import FormReading
from gatewright.contracts.schemas import written_out
from gatewright.errors import MalformedError, UnknownSchemaError
from gatewright.resources import schema_directory
from tests.contracts.test_schemas import ANNOTATIONS, RULES, subschemas

OWN = schema_directory() / "examples"
FILE: dict[str, Any] = json.loads((schema_directory() / forms.FILE).read_bytes())
EXAMPLES = schema_directory() / "cortexpilot" / "examples"
VALID = sorted(EXAMPLES.glob("*/valid/*.json"))
INVALID = sorted(EXAMPLES.glob("*/invalid/*.json"))
#: Document -> the fields that the format requires (specification 6.2, and the fields of its schemas).
REQUIRED = {
    "orchestrator_event.v1": "ts level event_type run_id task_id attempt payload trace_id",
    "run_manifest.v1": "run_id created_at status user_request trace_id repo versions tasks artifacts evidence_hashes",
    "task_result.v1": "run_id task_id producer status started_at finished_at summary artifacts git gates next_steps",
    "work_report.v1": "task_id status patch_ref diff_summary evidence_refs failure_reason",
    "review_report.v1": "run_id reviewer reviewed_at verdict summary scope_check evidence",
    "test_report.v1": "run_id task_id runner started_at finished_at status commands artifacts",
    "reexec_report.v1": "run_id status reexec_ts hard_equal_pass soft_equal_pass hard_diffs soft_diffs errors",
    "evidence_bundle.v1": "bundle_id created_at requested_by query sources claims limitations",
    "agent_registry.v1": "version agents",
}
#: Where a word of a document says how something ended or how much is allowed: both forms know the same words.
DECIDING = [
    ("run_manifest.v1", ("status",)),
    ("run_manifest.v1", ("tasks", "items", "status")),
    ("task_result.v1", ("status",)),
    ("work_report.v1", ("status",)),
    ("review_report.v1", ("verdict",)),
    ("review_report.v1", ("produced_diff",)),
    ("test_report.v1", ("status",)),
    ("reexec_report.v1", ("status",)),
    ("agent_registry.v1", ("agents", "items", "role")),
    ("agent_registry.v1", ("agents", "items", "defaults", "sandbox")),
    ("agent_registry.v1", ("agents", "items", "defaults", "approval_policy")),
    ("agent_registry.v1", ("agents", "items", "defaults", "network")),
]


def named(path: Path) -> str:
    return f"{path.parts[-3]}-{path.stem}"


def refusal(data: bytes, name: str) -> MalformedError:
    with pytest.raises(MalformedError) as raised:
        codec.decode_named(data, name)
    return raised.value


@pytest.mark.parametrize("path", VALID, ids=named)
def test_a_document_of_the_original_format_is_valid(path: Path) -> None:
    name, data = path.parts[-3], path.read_bytes()
    assert forms.read(name, data) == FormReading("cortexpilot", ())


@pytest.mark.parametrize("path", VALID, ids=named)
def test_deciding_readers_refuse_the_form_with_its_own_code(path: Path) -> None:
    name, data = path.parts[-3], path.read_bytes()
    error = refusal(data, name)
    assert error.reason == forms.CODE == "cortexpilot_form"
    assert error.faults == schemas.fault_report(name, data) != ()
    assert error.faults[0].pointer in str(error)


@pytest.mark.parametrize("path", INVALID, ids=named)
def test_what_the_original_format_refuses_is_valid_in_neither_form(path: Path) -> None:
    name, data = path.parts[-3], path.read_bytes()
    form, faults = forms.read(name, data)
    assert form == "cortexpilot"
    assert len(faults) == 1
    assert refusal(data, name).reason == "malformed"


@pytest.mark.parametrize("path", sorted(OWN.glob("*/valid/*.json")), ids=named)
def test_a_document_of_ours_keeps_our_form(path: Path) -> None:
    assert forms.read(path.parts[-3], path.read_bytes()) == FormReading("gatewright", ())


def test_every_document_of_the_format_is_read() -> None:
    """Two keep one form in both systems: the contract, and the evidence report."""
    assert set(forms.names()) == set(REQUIRED)
    assert {path.name for path in EXAMPLES.iterdir()} == set(REQUIRED)
    for name in (*REQUIRED, "task_contract.v1", "evidence_report.v1"):
        assert {path.stem for path in (OWN / name / "valid").glob("cortexpilot_*")} == {
            "cortexpilot_minimal",
            "cortexpilot_full",
        }


@pytest.mark.parametrize("name", REQUIRED)
def test_format_fields_are_required_and_the_full_example_complete(name: str) -> None:
    definition = FILE["$defs"][name]
    assert set(definition["required"]) == set(REQUIRED[name].split())
    assert set(json.loads((EXAMPLES / name / "valid" / "full.json").read_bytes())) == set(definition["properties"])
    assert definition["additionalProperties"] is False


@pytest.mark.parametrize(("name", "way"), DECIDING)
def test_both_forms_know_the_same_deciding_words(name: str, way: tuple[str, ...]) -> None:
    assert words_at(FILE["$defs"][name], way) == words_at(written_out(name), way)


def words_at(schema: dict[str, Any], way: tuple[str, ...]) -> set[Any]:
    for step in way:
        schema = schema["items"] if step == "items" else schema["properties"][step]
        if "$ref" in schema:
            schema = FILE["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return set(schema["enum"]) if "enum" in schema else {schema["const"]}


def test_the_form_file_is_draft_2020_12_with_described_rules() -> None:
    Draft202012Validator.check_schema(FILE)
    assert FILE["$id"] == forms.FILE
    for definition, schema in FILE["$defs"].items():
        for place, inner in subschemas(schema):
            assert set(inner) <= RULES | ANNOTATIONS, f"{definition}{place}"
    used = json.dumps(FILE)
    assert [piece for piece in FILE["$defs"] if piece not in REQUIRED and f'"#/$defs/{piece}"' not in used] == []


def test_faults_are_named_for_the_closest_form() -> None:
    foreign = json.loads((EXAMPLES / "test_report.v1" / "valid" / "full.json").read_bytes())
    faults = forms.read("test_report.v1", json.dumps({**foreign, "status": "GREEN"}).encode()).faults
    assert [(fault.pointer, fault.code) for fault in faults] == [("/status", "enum")]
    ours = json.loads((OWN / "test_report.v1" / "valid" / "full.json").read_bytes())
    form, faults = forms.read("test_report.v1", json.dumps({**ours, "status": "GREEN"}).encode())
    assert (form, [fault.pointer for fault in faults]) == ("gatewright", ["/status"])


@pytest.mark.parametrize("data", [b"", b"{", b'{"run_id":1,"run_id":2}', b"[" * 200 + b"]" * 200, b"7", b"\xff"])
def test_what_is_no_document_keeps_no_form(data: bytes) -> None:
    form, faults = forms.read("task_result.v1", data)
    assert form == "gatewright"
    assert faults
    assert refusal(data, "task_result.v1").reason == "malformed"


def test_an_unknown_schema_has_no_forms() -> None:
    with pytest.raises(UnknownSchemaError):
        forms.read("no_such.v1", b"{}")


def test_the_page_explains_how_the_forms_of_each_document_differ() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    table = page.partition("## CortexPilot documents")[2].partition("\n## ")[0]
    assert sorted(line.split("`")[1] for line in table.splitlines() if line.startswith("| `")) == list(forms.names())
