"""Submitting: what goes out, and what each answer becomes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gatewright.bus.memory import MemoryBus
from gatewright.bus.port import SCHEMA_HEADER
from gatewright.client import Client
from gatewright.contracts import Error, RunRequest, TaskContract, codec
from gatewright.contracts.reports import ErrorFault
from gatewright.errors import BusError, DeniedError, MalformedError, UnavailableError
from tests.client.conftest import ScriptedGatekeeper
from tests.making import make_contract, make_request


async def test_request_goes_out_under_its_schema_with_a_key_of_its_own(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    assert await client.submit_request(make_request()) == "run-0123456789"
    assert await client.submit_request(make_request()) == "run-0123456789"
    assert [message.headers[SCHEMA_HEADER] for message in gatekeeper.received] == ["run_request.v1"] * 2
    keys = {codec.decode(message.data, RunRequest).idempotency_key for message in gatekeeper.received}
    assert len(keys) == 2
    assert None not in keys


async def test_key_that_was_given_is_kept(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    await client.submit_request(make_request(idempotency_key="order-4711"))
    assert codec.decode(gatekeeper.received[0].data, RunRequest).idempotency_key == "order-4711"


async def test_contract_goes_out_as_it_is(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    contract = make_contract()
    await client.submit_contract(contract)
    assert gatekeeper.received[0].headers[SCHEMA_HEADER] == "task_contract.v1"
    assert codec.decode(gatekeeper.received[0].data, TaskContract) == contract


async def test_plain_dictionaries_are_taken(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    await client.submit_contract(msgspec.to_builtins(make_contract()))
    await client.submit_request(msgspec.to_builtins(make_request()))
    assert len(gatekeeper.received) == 2


async def test_wrong_dictionary_is_refused_here_with_every_fault(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    with pytest.raises(MalformedError) as refused:
        await client.submit_request({"request": "", "repository": {}, "surprise": 1})
    pointers = {fault.pointer for fault in refused.value.faults}
    assert {"/request", "/repository/url", "/surprise"} <= pointers
    assert gatekeeper.received == []


async def test_refusal_with_faults_is_malformed_and_keeps_them(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    gatekeeper.answer = Error(
        code="malformed", message="no", faults=(ErrorFault(pointer="/request", code="minLength", message="too short"),)
    )
    with pytest.raises(MalformedError) as refused:
        await client.submit_request(make_request())
    assert refused.value.reason == "malformed"
    assert [tuple(fault) for fault in refused.value.faults] == [("/request", "minLength", "too short")]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("path_too_broad", DeniedError),
        ("command_not_allowed", DeniedError),
        ("a_code_of_a_later_version", DeniedError),
        ("ref_not_found", MalformedError),
        ("bus_unavailable", UnavailableError),
    ],
)
async def test_refusal_becomes_an_error_of_its_family(
    client: Client, gatekeeper: ScriptedGatekeeper, code: str, kind: type[DeniedError | MalformedError | UnavailableError]
) -> None:
    gatekeeper.answer = Error(code=code, message="no")
    with pytest.raises(kind) as refused:
        await client.submit_request(make_request())
    assert refused.value.reason == code


async def test_without_a_gatekeeper_submitting_fails_at_once(client: Client) -> None:
    with pytest.raises(BusError):
        await client.submit_request(make_request())


async def test_patience_waits_for_a_gatekeeper_that_is_still_starting(client: Client, bus: MemoryBus) -> None:
    submitting = asyncio.create_task(client.submit_contract(make_contract(), patience=5.0))
    await asyncio.sleep(0.1)
    await ScriptedGatekeeper(bus).serve()
    assert await submitting == "run-0123456789"


async def test_small_attachment_travels_inside_and_a_large_one_through_the_store(client: Client) -> None:
    small, large = await client.attach("a", b"x" * 1000), await client.attach("b", b"x" * 300_000)
    assert small.uri.startswith("data:application/octet-stream;base64,")
    assert large.uri.startswith("artifact:sha256:")
    assert await client.get_artifact(large.uri) == b"x" * 300_000


async def test_inline_attachment_is_what_the_gatekeeper_reads(client: Client) -> None:
    from gatewright.artifacts import inline_bytes

    artifact = await client.attach("a", b"\x00\xffbinary")
    assert inline_bytes(artifact.uri) == b"\x00\xffbinary"
