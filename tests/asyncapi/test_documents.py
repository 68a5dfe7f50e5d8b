"""The AsyncAPI documents: what the specification asks, what the topology and the permissions say, and no payload loosened.

``asyncapi-3.0.0.schema.json.gz`` is the JSON Schema of the AsyncAPI project, as its package of specifications 6.11.1 has it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from gatewright.app.asyncapi import payloads
from gatewright.app.asyncapi.channels import publisher_channels, system_channels
from gatewright.app.asyncapi.document import as_text, overlap, publisher_document, system_document
from gatewright.bus import topology as t
from gatewright.bus.identities import STANDING
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.permissions import OWN_RIGHTS, access_of, publisher_subjects
from gatewright.bus.subjects import matches
from gatewright.contracts import schemas
from gatewright.errors import ConfigurationError
from gatewright.resources import schema_directory
from tests.command_line import invoke

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "asyncapi"
EXAMPLES = sorted((schema_directory() / "examples").glob("*/*valid/*.json"))
DOCUMENTS = {"publisher": publisher_document(), "system": system_document()}
OFFICIAL = Draft7Validator(json.loads(gzip.decompress((HERE / "asyncapi-3.0.0.schema.json.gz").read_bytes())))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_committed_document_is_the_generated_one(name: str) -> None:
    assert (DOCS / f"{name}.json").read_text("utf-8") == as_text(DOCUMENTS[name]), (
        "python -m gatewright.app.asyncapi docs/asyncapi"
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_keeps_the_schema_of_asyncapi(name: str) -> None:
    assert [error.message for error in OFFICIAL.iter_errors(DOCUMENTS[name])] == []


def test_the_schema_of_asyncapi_refuses_what_is_no_operation() -> None:
    broken = json.loads(as_text(DOCUMENTS["publisher"]))
    broken["operations"]["send-submit"]["action"] = "shout"
    assert list(OFFICIAL.iter_errors(broken)) != []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_leads_somewhere(name: str) -> None:
    document = DOCUMENTS[name]
    assert {each for each in references(document) if not leads_somewhere(document, each)} == set()


def leads_somewhere(document: dict[str, Any], reference: str) -> bool:
    node: dict[str, Any] = document
    for step in reference.removeprefix("#/").split("/"):
        node = node.get(step, {})
    return node != {}


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for each in node for found in references(each)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for each in node.values() for found in references(each)]


def test_every_subject_of_a_stream_has_a_channel() -> None:
    patterns = [channel.pattern for channel in system_channels()]
    streams = (*t.STREAMS, t.upload_stream())
    assert [s for stream in streams for s in stream.subjects if not any(overlap(s, p) for p in patterns)] == []


@pytest.mark.parametrize("identity", STANDING)
def test_whatever_an_identity_may_send_or_hear_has_a_channel(identity: str) -> None:
    access = access_of(identity)
    patterns = [channel.pattern for channel in system_channels()]
    used = (*access.publish, *access.hear, *access.serve, *access.peer_sends, *access.peer_receives)
    answers = {OWN_RIGHTS, "_INBOX_operator.>"}
    assert [each for each in used if each not in answers and not any(overlap(each, p) for p in patterns)] == []


def test_every_channel_is_used_by_an_identity() -> None:
    document = DOCUMENTS["system"]
    used = {operation["channel"]["$ref"] for operation in document["operations"].values()}
    used |= {operation["reply"]["channel"]["$ref"] for operation in document["operations"].values() if "reply" in operation}
    assert {f"#/channels/{key}" for key in document["channels"]} == used


def test_a_publisher_document_lists_exactly_what_the_server_permits() -> None:
    access = access_of("publisher-payments", publishers=("payments",))
    document = publisher_document("payments")
    channels = {f"#/channels/{key}": channel["address"] for key, channel in document["channels"].items()}
    sent = {channels[each["channel"]["$ref"]] for each in document["operations"].values() if each["action"] == "send"}
    assert {address for address in sent if address.startswith("gw.upload")} == {"gw.upload.payments.{sha256}.{piece}"}
    assert {address for address in sent if not address.startswith("gw.upload")} == {
        *publisher_subjects("payments").values(),
        t.answer_subject("payments"),
    }
    assert all(
        any(matches(may, channel.pattern) for may in (*access.sends(), *access.receives()))
        for channel in publisher_channels("payments")
    )


def test_no_identity_is_shown_an_operation_that_the_server_refuses_it() -> None:
    document = DOCUMENTS["system"]
    for identity in STANDING:
        access = access_of(identity)
        for key, operation in document["operations"].items():
            if operation["tags"] != [{"name": identity}]:
                continue
            address = document["channels"][operation["channel"]["$ref"].rpartition("/")[2]]["address"]
            pattern = next(channel.pattern for channel in system_channels() if channel.address == address)
            own = (
                (*access.sends(),)
                if operation["action"] == "send"
                else (*access.receives(), *(q.subject for q in access.queues))
            )
            assert any(overlap(each, pattern) for each in own), key


def test_an_endpoint_of_other_systems_is_one_address() -> None:
    channels = DOCUMENTS["system"]["channels"]
    called: dict[str, set[str]] = {}
    for each in channels.values():
        called.setdefault(each.get("x-also-called", ""), set()).add(each["address"])
    assert called.keys() - {""} == {"review.vote", "review.status", "deliver.submit", "context.get"}
    assert called["review.vote"] == {t.DECIDE_SUBJECT}
    assert called["review.status"] == {t.APPROVALS_SUBJECT}
    assert called["deliver.submit"] == {t.SUBMIT_SUBJECT, f"{t.SUBMIT_SUBJECT}.{{publisher}}"}
    assert called["context.get"] == {t.CONTEXT_SUBJECT, f"{t.CONTEXT_SUBJECT}.{{publisher}}"}


def test_queues_stand_beside_the_operation_that_pulls_from_them() -> None:
    taking = DOCUMENTS["system"]["operations"]["worker-receive-worker-tasks"]
    assert [each["durable"] for each in taking["x-jetstream-consumers"]] == [q.durable for q in t.task_consumers("worker")]
    assert DOCUMENTS["system"]["channels"]["worker-tasks"]["x-jetstream-stream"] == "TASKS"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: "-".join((*path.parts[-3:-1], path.stem)))
def test_a_payload_takes_and_refuses_what_its_schema_does(path: Path) -> None:
    """Draft 07 in place of 2020-12 must not let anything through, or keep anything out."""
    name, data = path.parts[-3], path.read_bytes()
    try:
        value = json.loads(data)
    except ValueError:
        assert path.parts[-2] == "invalid"
        return
    converted = {
        "$ref": f"#/components/schemas/{payloads.component(name)}",
        "components": {"schemas": payloads.components([name])},
    }
    assert Draft7Validator(converted).is_valid(value) == schemas.validator(name).is_valid(value)


def test_an_example_of_each_message_is_valid() -> None:
    document = DOCUMENTS["system"]
    shown = 0
    for message in document["components"]["messages"].values():
        for example in message.get("examples", ()):
            rule = {**message["payload"], "components": document["components"]}
            Draft7Validator(rule).validate(example["payload"])
            shown += 1
    assert shown > 20


def test_the_command_prints_the_document_of_a_publisher() -> None:
    said = invoke(("topology", "--format", "asyncapi", "--publisher", "payments"))
    assert json.loads(said.stdout) == publisher_document("payments")


def test_each_ledger_part_has_its_address_stream_and_writer() -> None:
    document = system_document(partitions=3)
    assert [error.message for error in OFFICIAL.iter_errors(document)] == []
    parts = {key: each for key, each in document["channels"].items() if key.startswith("ledger")}
    layout, run_id = LedgerLayout(3), "run-0123456789abcdef0123"
    names = [each.stream for each in layout.stored_runs(t.run_subject("*"))]
    assert [each["x-jetstream-stream"] for each in parts.values()] == names
    (lies,) = layout.stored_runs(t.run_subject(run_id))
    assert parts[f"ledger-{lies.partition}"]["address"].format(run_id=run_id) == lies.subject
    for key in parts:
        users = [each for each, told in document["operations"].items() if told["channel"]["$ref"] == f"#/channels/{key}"]
        assert [each for each in users if "-send-" in each] == [f"gatekeeper-send-{key}"]
    told = [each["name"] for each in document["x-jetstream-streams"]]
    assert [name for name in told if t.is_of_ledger(name)] == names
    said = invoke(("topology", "--format", "asyncapi", "--partitions", "3"))
    assert json.loads(said.stdout) == document


def test_a_name_that_no_publisher_can_have_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        publisher_document("Pay.ments")
