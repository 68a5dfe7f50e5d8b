"""Canonical bytes, and what becomes of bytes that mean harm."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from gatewright.contracts import (
    AbortRequest,
    Error,
    OrchestratorEvent,
    ReexecReport,
    RunRequest,
    TaskContract,
    codec,
    schemas,
)
from gatewright.contracts.strict_json import MAX_DEPTH
from gatewright.contracts.vocabulary import MAX_INTEGER, Document, Repository, TimeoutRetry
from gatewright.errors import Fault, MalformedError
from gatewright.resources import schema_directory


def example(name: str, stem: str = "minimal") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((schema_directory() / "examples" / name / "valid" / f"{stem}.json").read_bytes())
    return loaded


def refused(data: bytes, kind: type[Document]) -> tuple[Fault, ...]:
    with pytest.raises(MalformedError) as refusal:
        codec.decode(data, kind)
    assert refusal.value.faults
    return refusal.value.faults


def places(faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.code) for fault in faults]


ABORT = b'{"reason":"late","requested_by":"ada","run_id":"run-7f3a9c20d1"}'


# --- canonical bytes ---


def test_equal_documents_give_equal_bytes_however_they_were_written() -> None:
    spellings = [
        ABORT,
        b' {"run_id" : "run-7f3a9c20d1",\n\t"requested_by":"ada", "reason":"late"}\r\n',
        rb'{"run_id":"run-7f3a9c20d1","requested_by":"\u0061da","reason":"late"}',
    ]
    assert {codec.encode(codec.decode(spelling, AbortRequest)) for spelling in spellings} == {ABORT}


def test_canonical_bytes_keep_letters_as_they_are() -> None:
    document = codec.decode(ABORT.replace(b"late", "zu spät \u2028 <&> 😀".encode()), AbortRequest)
    assert "zu spät \u2028 <&> 😀".encode() in codec.encode(document)


def test_keys_are_sorted_at_every_depth() -> None:
    written = {**example("orchestrator_event.v1"), "payload": {"b": {"z": 1, "é": 2, "a": 3}, "a": []}}
    assert b'"payload":{"a":[],"b":{"a":3,"z":1,"\xc3\xa9":2}}' in codec.encode(
        codec.decode(json.dumps(written).encode(), OrchestratorEvent)
    )


def test_a_number_of_seconds_has_one_spelling() -> None:
    made = TimeoutRetry(timeout_sec=30, max_retries=0, retry_backoff_sec=-0.0)
    assert msgspec.json.encode(made) == b'{"timeout_sec":30.0,"max_retries":0,"retry_backoff_sec":0.0}'
    assert msgspec.json.decode(b'{"timeout_sec":3e1,"max_retries":0,"retry_backoff_sec":0}', type=TimeoutRetry) == made


def test_a_default_is_omitted_by_every_writer() -> None:
    head = b"HEAD".decode()  # equal to the default, not identical with it
    made = RunRequest(request="r", repository=Repository(url="u"), requested_by="ada", baseline_ref=head)
    assert codec.encode(made) == b'{"repository":{"url":"u"},"request":"r","requested_by":"ada"}'
    written = b'{"baseline_ref":"HEAD","policy_pack":"low","repository":{"url":"u","landing":"branch"},'
    assert codec.encode(codec.decode(written + b'"request":"r","requested_by":"ada"}', RunRequest)) == codec.encode(made)


def test_null_means_absent() -> None:
    written = example("task_contract.v1", "null_means_absent")
    without = {key: value for key, value in written.items() if value is not None}
    decoded = codec.decode(json.dumps(written).encode(), TaskContract)
    assert decoded == codec.decode(json.dumps(without).encode(), TaskContract)
    assert b"null" not in codec.encode(decoded)


def test_a_contract_without_a_task_type_is_to_be_implemented() -> None:
    assert codec.decode(json.dumps(example("task_contract.v1")).encode(), TaskContract).task_type == "IMPLEMENT"


def test_the_schema_name_of_a_document_is_known() -> None:
    for name, kind in codec.DOCUMENTS.items():
        document = codec.decode_named(json.dumps(example(name)).encode(), name)
        assert type(document) is kind
        assert codec.schema_of(document) == name


def test_values_that_json_cannot_express_are_not_written() -> None:
    with pytest.raises(MalformedError):
        codec.encode(Error(code="x", message="\udc80 from a file name"))
    bottomless: list[Any] = []
    bottomless.append(bottomless)
    event = codec.decode(json.dumps(example("orchestrator_event.v1")).encode(), OrchestratorEvent)
    with pytest.raises(MalformedError):
        codec.encode(msgspec.structs.replace(event, payload={"deep": bottomless}))


# --- the error report ---


def test_every_fault_is_named_by_pointer_at_once() -> None:
    contract = example("task_contract.v1", "full")
    del contract["allowed_paths"]
    del contract["rollback"]["strategy"]
    contract["a/b~c"] = 1
    contract["acceptance_tests"][1]["cmd"] = None
    contract["inputs"]["artifacts"][0]["sha256"] = "0"
    contract["timeout_retry"]["max_retries"] = 11
    assert places(refused(json.dumps(contract).encode(), TaskContract)) == [
        ("/acceptance_tests/1/cmd", "type"),
        ("/allowed_paths", "required"),
        ("/a~1b~0c", "additionalProperties"),
        ("/inputs/artifacts/0/sha256", "pattern"),
        ("/rollback/strategy", "required"),
        ("/timeout_retry/max_retries", "maximum"),
    ]


def test_faults_inside_an_optional_part_are_named_too() -> None:
    contract = example("task_contract.v1", "full")
    contract["executor"]["kind"] = "shell"
    contract["scope"]["allow_everything"] = True
    contract["repository"] = 7
    assert places(refused(json.dumps(contract).encode(), TaskContract)) == [
        ("/executor/kind", "enum"),
        ("/repository", "type"),
        ("/scope/allow_everything", "additionalProperties"),
    ]


def test_a_report_does_not_repeat_what_was_sent() -> None:
    secret = "AKIA-very-secret"
    contract = example("task_contract.v1", "full")
    contract["task_type"] = contract["executor"] = contract["audit_only"] = contract["policy_pack"] = secret
    contract["allowed_paths"] = {secret: secret}
    contract["inputs"]["artifacts"][0]["sha256"] = secret
    with pytest.raises(MalformedError) as refusal:
        codec.decode(json.dumps(contract).encode(), TaskContract)
    assert len(refusal.value.faults) == 6
    assert secret not in str(refusal.value) + str(refusal.value.faults)


@pytest.mark.parametrize("value", [b"[]", b"null", b'"x"', b"1", b"true"])
def test_a_document_that_is_no_object_is_pointed_at_as_a_whole(value: bytes) -> None:
    assert places(refused(value, AbortRequest)) == [("", "type")]


# --- the text itself ---


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        ABORT[:-1],
        ABORT + b",",
        ABORT + ABORT,
        ABORT + b"\x00",
        b"\xef\xbb\xbf" + ABORT,
        ABORT.decode().encode("utf-16"),
        ABORT.decode().encode("utf-32"),
        ABORT.replace(b"late", b"\xff"),
        ABORT.replace(b"late", b"\xed\xa0\x80"),
        ABORT.replace(b"late", b"\xc0\xaf"),
        ABORT.replace(b"late", b"a\nb"),
        ABORT.replace(b"late", rb"\ud800"),
        ABORT.replace(b"late", rb"\udc00\ud800"),
        ABORT.replace(b"reason", rb"\ud800"),
        ABORT.replace(b'"late"', b"NaN"),
        ABORT.replace(b'"late"', b"-Infinity"),
        ABORT.replace(b'"late"', b"1e999"),
        ABORT.replace(b'"late"', b"9" * 5000),
        ABORT.replace(b'"late"', b"01"),
        ABORT.replace(b'"late"', b"'late'"),
        ABORT.replace(b",", b",,", 1),
        ABORT.replace(b"}", b",}"),
        b"/* why */" + ABORT,
        b"\x80\x04K\x01.",
    ],
)
def test_what_is_not_json_is_refused_as_such(data: bytes) -> None:
    assert places(refused(data, AbortRequest)) == [("", "not_json")]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 5_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_without_end_is_refused(depth: int, opening: bytes, closing: bytes) -> None:
    event = json.dumps({**example("orchestrator_event.v1"), "payload": {"deep": 0}}).encode()
    filler = b"0" if closing == b"}" else b""
    deep = event.replace(b'"deep": 0', b'"deep": ' + opening * depth + filler + closing * depth)
    assert places(refused(deep, OrchestratorEvent)) == [("", "too_deep")]
    unclosed = event.replace(b'"deep": 0', b'"deep": ' + opening * depth)
    assert refused(unclosed, OrchestratorEvent)[0].code in {"too_deep", "not_json"}


def test_nesting_up_to_the_limit_is_accepted_and_written_again() -> None:
    depth = MAX_DEPTH - 3  # the document, hard_diffs and the difference are around it
    report = json.dumps({**example("reexec_report.v1"), "hard_diffs": [{"key": "k", "expected": None}]}).encode()
    nested, too_deep = (report.replace(b"null", b"[" * many + b"]" * many) for many in (depth, depth + 1))
    assert codec.decode(codec.encode(codec.decode(nested, ReexecReport)), ReexecReport)
    assert places(refused(too_deep, ReexecReport)) == [("", "too_deep")]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (ABORT.replace(b"{", b'{"reason":"late",'), "/reason"),
        (ABORT.replace(b"{", b'{"reason":"never",'), "/reason"),
        (ABORT.replace(b"{", b'{"reason":7,'), "/reason"),
        (ABORT.replace(b"{", rb'{"r\u0065ason":"never",'), "/reason"),
        (ABORT.replace(b"{", b'{"reason":{"x":1,"x":2},'), "/reason"),
        (ABORT.replace(b'"late"', b'[0,{"x":1,"x":2}]'), "/reason/1/x"),
    ],
)
def test_a_key_that_stands_twice_is_refused(data: bytes, place: str) -> None:
    assert places(refused(data, AbortRequest)) == [(place, "duplicate_key")]


def test_a_wider_scope_cannot_hide_behind_a_second_key() -> None:
    plan = json.dumps(example("plan.v1")).encode()
    widened = plan.replace(b'"allowed_paths": ["src"]', b'"allowed_paths": ["src"], "allowed_paths": ["/"]')
    assert widened != plan
    assert places(refused(widened, codec.DOCUMENTS["plan.v1"])) == [("/contracts/0/allowed_paths", "duplicate_key")]


# --- numbers ---


def test_an_integer_may_be_written_with_a_point() -> None:
    contract = json.dumps(example("task_contract.v1")).encode().replace(b'"max_retries": 0', b'"max_retries": 2.0')
    decoded = codec.decode(contract, TaskContract)
    assert decoded.timeout_retry.max_retries == 2
    assert isinstance(decoded.timeout_retry.max_retries, int)


@pytest.mark.parametrize("number", [b"1.5", b"1e400", b"-1", b"1" + b"0" * 400, b"true", b'"1"', b"11.0"])
def test_what_is_no_integer_within_bounds_is_refused(number: bytes) -> None:
    contract = json.dumps(example("task_contract.v1")).encode().replace(b'"max_retries": 0', b'"max_retries": ' + number)
    refused(contract, TaskContract)


def test_an_integer_beyond_what_every_reader_keeps_exact_is_refused() -> None:
    event = example("orchestrator_event.v1", "full")
    exact = codec.decode(json.dumps({**event, "seq": MAX_INTEGER}).encode(), OrchestratorEvent)
    assert exact.seq == MAX_INTEGER
    assert places(refused(json.dumps({**event, "seq": MAX_INTEGER + 1}).encode(), OrchestratorEvent)) == [("/seq", "maximum")]


# --- cost ---


def test_a_report_names_a_bounded_number_of_faults() -> None:
    contract = {**example("task_contract.v1"), **{f"field{n}": n for n in range(200)}, "allowed_paths": [0] * 200}
    assert len(refused(json.dumps(contract).encode(), TaskContract)) == schemas.MAX_FAULTS


def test_a_very_long_key_does_not_fill_the_report() -> None:
    (fault,) = refused(ABORT.replace(b"{", b'{"' + b"k" * 1_000_000 + b'":1,'), AbortRequest)
    assert len(fault.pointer) < 1000


def test_a_huge_refused_document_costs_no_more_than_reading_it() -> None:
    contract = {**example("task_contract.v1"), "evidence_links": ["e"] * 1_000_000, "attempt": "first"}
    data = json.dumps(contract).encode()
    begun = time.process_time()
    json.loads(data)
    read = time.process_time()
    assert places(refused(data, TaskContract)) == [("/attempt", "invalid")]
    assert time.process_time() - read < 20 * (read - begun)


def test_the_place_of_a_fault_in_a_huge_document_is_named() -> None:
    contract = example("task_contract.v1")
    contract["acceptance_tests"] = [{"name": "t", "cmd": "true", "must_pass": True}] * 10_000
    contract["acceptance_tests"].append({"name": "t", "cmd": 1, "must_pass": True})
    assert places(refused(json.dumps(contract).encode(), TaskContract)) == [("/acceptance_tests/10000/cmd", "invalid")]
