"""Submitting: what goes out, and what each answer becomes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import KEY_HEADER, SCHEMA_HEADER, Message, Reply
from gatewright.bus.topology import INTAKE_CONSUMER
from gatewright.client import Client
from gatewright.contracts import Error, RunRequest, SubmitReply, TaskContract, codec
from gatewright.contracts.reports import ErrorFault
from gatewright.errors import BusError, DeniedError, LimitError, MalformedError, UnavailableError
from tests.client.conftest import ScriptedGatekeeper
from tests.factories import make_contract, make_request
from tests.waiting import PATIENCE


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
    submitting = asyncio.create_task(client.submit_contract(make_contract(), patience=PATIENCE))
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


async def test_a_contract_goes_out_with_a_key_in_its_header(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    await client.submit_contract(make_contract(), idempotency_key="order-4711")
    await client.submit_contract(make_contract())
    keys = [message.headers[KEY_HEADER] for message in gatekeeper.received]
    assert keys[0] == "order-4711"
    assert len(keys[1]) >= 8


async def test_a_named_publisher_speaks_on_its_own_subjects(bus: MemoryBus) -> None:
    heard: list[str] = []

    async def answer(message: Message) -> Reply:
        heard.append(message.subject)
        return Reply(codec.encode(SubmitReply(run_id="run-0123456789")), "submit_reply.v1")

    await bus.serve("gw-gatekeeper", {"gw.submit.*": answer})
    acme = Client(bus, publisher="acme")
    await acme.submit_request(make_request())
    await acme.abort("run-0123456789", "enough")
    delivery = await (await bus.consume(INTAKE_CONSUMER)).next(1.0)
    assert delivery is not None
    assert [*heard, delivery.message.subject] == ["gw.submit.acme", "gw.intake.abort.acme"]


async def test_a_limit_is_waited_for_as_long_as_the_patience_lasts(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    gatekeeper.answer = Error(code="rate_exceeded", message="slower", retry_after_seconds=0.1)
    with pytest.raises(LimitError) as refused:
        await client.submit_request(make_request())
    assert (refused.value.reason, refused.value.retry_after) == ("rate_exceeded", 0.1)
    submitting = asyncio.create_task(client.submit_request(make_request(), patience=PATIENCE))
    await asyncio.sleep(0.05)
    gatekeeper.answer = SubmitReply(run_id="run-0123456789")
    assert await submitting == "run-0123456789"
    assert len({message.data for message in gatekeeper.received[1:]}) == 1, "the same document, with the same key"


async def test_a_policy_refusal_keeps_its_pointers(client: Client, gatekeeper: ScriptedGatekeeper) -> None:
    fault = ErrorFault(pointer="/repository/url", code="repository_not_allowed", message="not yours")
    gatekeeper.answer = Error(code="repository_not_allowed", message="no", faults=(fault,))
    with pytest.raises(DeniedError) as refused:
        await client.submit_request(make_request())
    assert [tuple(each) for each in refused.value.faults] == [("/repository/url", "repository_not_allowed", "not yours")]


async def test_a_lost_submission_is_retried_under_the_same_key(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatewright.client.client.ASK_AGAIN", 0.05)
    asked: list[str | None] = []

    async def answer(message: Message) -> Reply:
        asked.append(codec.decode(message.data, RunRequest).idempotency_key)
        if len(asked) < 3:
            await asyncio.Event().wait()
        return Reply(codec.encode(SubmitReply(run_id="run-0123456789", existing=False)), "submit_reply.v1")

    await bus.serve("gw-gatekeeper", {"gw.submit": answer})
    assert await Client(bus).submit_request(make_request()) == "run-0123456789"
    assert len(asked) == 3
    assert len(set(asked)) == 1


@pytest.mark.parametrize("code", ["disk_full", "bundle_unwritable", "bus_storage_full", "service_busy", "service_stopping"])
async def test_a_gatekeeper_that_has_no_room_now_is_asked_again(
    client: Client, gatekeeper: ScriptedGatekeeper, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr("gatewright.client.client.PASSING_PAUSE", 0.02)
    gatekeeper.answer = Error(code=code, message="no room")
    with pytest.raises(UnavailableError) as refused:
        await client.submit_request(make_request())
    assert refused.value.reason == code
    waiting = asyncio.create_task(client.submit_request(make_request(), patience=PATIENCE))
    while len(gatekeeper.received) < 3:  # noqa: ASYNC110 - the client's own pace
        await asyncio.sleep(0.01)
    gatekeeper.answer = SubmitReply(run_id="run-0123456789", existing=False)
    assert await waiting == "run-0123456789"
