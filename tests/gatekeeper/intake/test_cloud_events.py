"""CloudEvents: what is taken out of an envelope, and what is told to whoever sends another one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gatewright.bus.port import Message
from gatewright.bus.topology import ABORT_SUBJECT, CONTRACT_SUBJECT, REQUEST_SUBJECT
from gatewright.contracts import AbortRequest, RunRequest, codec
from gatewright.errors import MalformedError
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.intake.submission import abort_request, submission
from tests.factories import make_contract, make_request
from tests.odd_values import ODD, variants

HEADERS = {"Content-Type": "application/cloudevents+json"}
REQUEST: dict[str, Any] = json.loads(codec.encode(make_request()))


def make_event(**changes: Any) -> dict[str, Any]:
    """A valid event; a change to None takes the attribute out."""
    event = {
        "specversion": "1.0",
        "type": "gatewright.run_request.v1",
        "source": "https://ci.example/pipelines/7",
        "id": "build-4711",
        "time": "2026-01-05T09:30:00Z",
        "datacontenttype": "application/json",
        "data": REQUEST,
        **changes,
    }
    return {name: value for name, value in event.items() if value is not None}


def sent(event: object, headers: dict[str, str] | None = None, subject: str = "gw.submit") -> Message:
    return Message(subject, json.dumps(event, ensure_ascii=False).encode(), HEADERS if headers is None else headers)


def faults_of(event: object, headers: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
    with pytest.raises(MalformedError) as refused:
        submission(sent(event, headers))
    return refused.value.reason, {fault.pointer: fault.code for fault in refused.value.faults}


@pytest.mark.parametrize(
    "headers",
    [
        HEADERS,
        {},
        {"content-type": "application/cloudevents+json; charset=UTF-8"},
        {"Content-Type": "Application/CloudEvents+JSON"},
        {"content-type": "application/cloudevents"},
    ],
)
def test_the_data_is_the_document_and_source_and_id_are_the_key(headers: dict[str, str]) -> None:
    item = submission(sent(make_event(), headers), publisher="acme")
    assert item.document == make_request()
    assert item.run_id == run_id_of('["cloudevent","https://ci.example/pipelines/7","build-4711"]', "acme")


def test_a_key_of_the_document_comes_before_that_of_the_event() -> None:
    item = submission(sent(make_event(data=REQUEST | {"idempotency_key": "order-4711"})))
    assert item.run_id == run_id_of("order-4711")


def test_the_same_event_sent_again_is_the_same_document() -> None:
    first, again = submission(sent(make_event())), submission(sent(make_event(time="2026-01-05T09:31:00Z", subject="retry")))
    assert (first.run_id, first.document_sha256) == (again.run_id, again.document_sha256)
    assert first.run_id != submission(sent(make_event(id="build-4712"))).run_id
    assert first.run_id != submission(sent(make_event(source="https://ci.example/pipelines/8"))).run_id


def test_source_and_id_cannot_be_moved_into_each_other() -> None:
    one, other = make_event(source="a", id='b","c'), make_event(source="a%22,%22b", id="c")
    assert submission(sent(one)).run_id != submission(sent(other)).run_id


def test_contracts_and_aborts_travel_in_events_too() -> None:
    contract = make_contract()
    event = make_event(type="gatewright.task_contract.v1", data=json.loads(codec.encode(contract)))
    assert submission(sent(event), CONTRACT_SUBJECT).document == contract
    abort = AbortRequest(run_id="run-0123456789", reason="enough", requested_by="me")
    event = make_event(type="gatewright.abort_request.v1", data=json.loads(codec.encode(abort)))
    assert abort_request(sent(event, subject=ABORT_SUBJECT)) == abort
    with pytest.raises(MalformedError) as refused:
        submission(sent(event))
    assert refused.value.reason == "not_submittable"


def test_the_trace_of_an_event_is_that_of_the_run() -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert submission(sent(make_event(traceparent=f"00-{trace}-00f067aa0ba902b7-01"))).trace_id == trace


def test_an_event_of_another_kind_than_its_subject_is_refused() -> None:
    with pytest.raises(MalformedError) as refused:
        submission(sent(make_event(type="gatewright.task_contract.v1")), REQUEST_SUBJECT)
    assert refused.value.reason == "cloud_event_type_mismatch"


def test_faults_of_the_document_are_pointed_at_inside_the_event() -> None:
    code, faults = faults_of(make_event(data={"request": "", "surprise": 1}))
    assert code == "malformed"
    assert {"/data/request", "/data/surprise", "/data/repository"} <= faults.keys()


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"specversion": "0.3"}, "cloud_event_version", "/specversion"),
        ({"specversion": 1.0}, "cloud_event_version", "/specversion"),
        ({"id": None}, "cloud_event_invalid", "/id"),
        ({"id": ""}, "cloud_event_invalid", "/id"),
        ({"id": 4711}, "cloud_event_invalid", "/id"),
        ({"id": "a\nb"}, "cloud_event_invalid", "/id"),
        ({"source": None}, "cloud_event_invalid", "/source"),
        ({"source": "no uri at all"}, "cloud_event_invalid", "/source"),
        ({"source": "https://bücher.example/"}, "cloud_event_invalid", "/source"),
        ({"type": None}, "cloud_event_invalid", "/type"),
        ({"type": ["gatewright.run_request.v1"]}, "cloud_event_invalid", "/type"),
        ({"type": "com.example.deploy"}, "cloud_event_type_unknown", "/type"),
        ({"time": "yesterday"}, "cloud_event_invalid", "/time"),
        ({"time": "2026-01-05T09:30:00"}, "cloud_event_invalid", "/time"),
        ({"dataschema": ""}, "cloud_event_invalid", "/dataschema"),
        ({"Custom": "x"}, "cloud_event_invalid", "/Custom"),
        ({"größe": "x"}, "cloud_event_invalid", "/größe"),
        ({"extension": {"a": 1}}, "cloud_event_invalid", "/extension"),
        ({"extension": 1.5}, "cloud_event_invalid", "/extension"),
        ({"datacontenttype": "application/xml"}, "cloud_event_data_not_json", "/datacontenttype"),
        ({"datacontenttype": "application/octet-stream"}, "cloud_event_data_not_json", "/datacontenttype"),
        ({"data": None}, "cloud_event_without_data", "/data"),
        ({"data": "{}"}, "malformed", "/data"),
        ({"data": [REQUEST]}, "malformed", "/data"),
    ],
)
def test_an_invalid_envelope_is_refused_with_a_pointer(changes: dict[str, Any], code: str, pointer: str) -> None:
    found, faults = faults_of(make_event(**changes))
    assert (found, list(faults)) == (code, [pointer])


def test_binary_data_is_refused_by_name() -> None:
    packed = base64.b64encode(codec.encode(make_request())).decode()
    assert faults_of(make_event(data=None, data_base64=packed)) == (
        "cloud_event_binary_data",
        {"/data_base64": "cloud_event_binary_data"},
    )
    assert faults_of(make_event(data_base64=packed))[0] == "cloud_event_binary_data"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "application/cloudevents-batch+json"}, "cloud_event_batch"),
        ({"ce-specversion": "1.0", "ce-id": "1"}, "cloud_event_binary_mode"),
        ({"Content-Type": "application/cloudevents-batch"}, "cloud_event_batch"),
        ({"Content-Type": "application/cloudevents+json; charset=utf-16"}, "cloud_event_format"),
        ({"Content-Type": "application/cloudevents+protobuf"}, "cloud_event_format"),
    ],
)
def test_a_mode_that_is_not_taken_is_refused_by_name(headers: dict[str, str], code: str) -> None:
    with pytest.raises(MalformedError) as refused:
        submission(sent(make_event(), headers))
    assert refused.value.reason == code


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b'"specversion"', b'{"specversion": "1.0"', b'{"id": "1", "id": "2"}', b"\xff"]
)
def test_what_is_no_envelope_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        submission(Message("gw.submit", data, HEADERS))


def test_a_document_that_speaks_of_events_is_none() -> None:
    request = make_request(request='write "specversion" into the event')
    item = submission(Message("gw.submit", codec.encode(request)))
    assert isinstance(item.document, RunRequest)
    assert item.document == request


def test_an_odd_value_anywhere_in_an_envelope_is_refused_or_taken() -> None:
    taken = 0
    for odd in variants(make_event(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01", subject="s", extension=1), ODD):
        try:
            data = json.dumps(odd).encode()
            submission(Message("gw.submit", data, HEADERS))
        except MalformedError:
            continue
        taken += 1
    assert taken > 1
