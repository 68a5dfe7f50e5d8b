"""What a broken or hostile client sends: answered or put aside, and the honest run next to it is unharmed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gatewright import Client
from gatewright.app.stack.state import StackState
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import ABORT_SUBJECT, REQUEST_SUBJECT, result_subject
from gatewright.contracts import Error, UsageReport, codec
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import MalformedError
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, slow_request
from tests.waiting import PATIENCE

GARBAGE = (b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 20_000, b'{"run_id": "../../x"}', b'{"request": 1e400}')


async def send_garbage(stack: StackState) -> int:
    """Every kind of garbage on every subject that the gatekeeper reads; how many messages that were."""
    sent = 0
    for identity, subject in (
        ("publisher", REQUEST_SUBJECT),
        ("publisher", ABORT_SUBJECT),
        ("worker", result_subject("worker")),
        ("testrunner", result_subject("testrunner")),
    ):
        bus = await JetStreamBus.connect(stack.address(identity), name="stranger")
        for number, data in enumerate(GARBAGE):
            for schema in ("task_result.v1", "no_such_schema.v9"):
                await bus.publish(subject, data, schema=schema, message_id=f"garbage:{subject}:{schema}:{number}")
                sent += 1
        await bus.close()
    return sent


async def dead_letters(stack: StackState, wanted: int, about: str = "") -> list[Message]:
    """Those with ``about`` in them, when they are as many as are wanted."""
    bus = await JetStreamBus.connect(stack.address(), name="operator")
    found: list[Message] = []
    for _ in range(100):
        found = [message async for message in bus.replay("gw.dead.gatekeeper") if about.encode() in message.data]
        if len(found) >= wanted:
            break
        await asyncio.sleep(0.1)
    await bus.close()
    return found


@pytest.mark.long
def test_garbage_becomes_a_dead_letter_and_blocks_no_run(own_stack: Stack, make_project: MakeProject) -> None:
    (gatekeeper,) = own_stack.members("gatekeeper")
    sent = asyncio.run(send_garbage(own_stack.state))
    with own_stack.client() as client:
        run = client.wait(client.submit_request(slow_request(make_project(), 0.0), patience=PATIENCE), timeout=PATIENCE)
    assert run.status == "SUCCESS"
    buried = asyncio.run(dead_letters(own_stack.state, sent))
    assert len(buried) == sent
    assert all(message.headers["Gw-Dead-Code"] for message in buried)
    assert own_stack.members("gatekeeper") == [gatekeeper]


def test_a_forged_result_of_another_role_is_ignored(stack: Stack, make_project: MakeProject) -> None:
    async def forge(run_id: str) -> None:
        for role in ("pm", "techlead", "reviewer", "testrunner"):
            bus = await JetStreamBus.connect(stack.state.address(role), name="stranger")
            forged = Error(code="tests_failed", message="forged", run_id=run_id, task_id=f"{run_id}.plan.w01", role=role)
            await bus.publish(result_subject(role), codec.encode(forged), schema="error.v1", message_id=f"forged:{role}")
            await bus.close()

    with stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 1.0), patience=PATIENCE)
        asyncio.run(forge(run_id))
        run = client.wait(run_id, timeout=PATIENCE)
    assert run.status == "SUCCESS"


def test_a_worker_cannot_end_a_run_whose_task_it_was_not_given(stack: Stack, make_project: MakeProject) -> None:
    """It has the worker's credential and guesses the ids; what it lacks is what came with the task."""

    async def forge(run_id: str) -> int:
        bus = await JetStreamBus.connect(stack.state.address("worker"), name="stranger")
        task_id = f"{run_id}.plan.w01"
        failure = Error(code="executor_failed", message="forged", run_id=run_id, task_id=task_id, role="worker")
        usage = Usage(tokens=10**9, cost_usd=1e6, iterations=9, delivery="1.1")
        spent = UsageReport(run_id=run_id, task_id=task_id, usage=usage)
        sent = 0
        for document in (failure, spent):
            for token in ("", "0" * 64, bus.keyed_hashes(f"task:{run_id}:{task_id}")[0]):
                headers = {TASK_TOKEN_HEADER: token} if token else None
                sent += 1
                schema, message_id = codec.schema_of(document), f"{run_id}:{sent}"
                data = codec.encode(document)
                await bus.publish(result_subject("worker"), data, schema=schema, message_id=message_id, headers=headers)
        await bus.close()
        return sent

    with stack.client() as client:
        run_id = client.submit_request(slow_request(make_project(), 1.0), patience=PATIENCE)
        for event in client.follow(run_id):
            if event.event_type == "task_dispatched" and event.task_id == f"{run_id}.plan.w01":
                break
        sent = asyncio.run(forge(run_id))
        run = client.wait(run_id, timeout=PATIENCE)
    assert run.status == "SUCCESS"
    buried = asyncio.run(dead_letters(stack.state, sent, run_id))
    assert [letter.headers["Gw-Dead-Code"] for letter in buried] == ["task_not_held"] * sent


def test_the_same_idempotency_key_gives_the_same_run(stack: Stack, make_project: MakeProject) -> None:
    request = msgspec.structs.replace(slow_request(make_project(), 0.0), idempotency_key="one and the same")

    async def submit_at_once() -> set[str]:
        async with Client.connect(stack.state.address("publisher")) as client:
            return set(await asyncio.gather(*(client.submit_request(request, patience=PATIENCE) for _ in range(8))))

    (run_id,) = asyncio.run(submit_at_once())
    with stack.client() as client:
        run = client.wait(run_id, timeout=PATIENCE)
        assert [listed.run_id for listed in client.runs()].count(run_id) == 1
    assert run.status == "SUCCESS"


def test_a_request_that_lacks_paths_and_tests_fails_with_the_fields_named(stack: Stack, make_project: MakeProject) -> None:
    incomplete = msgspec.structs.replace(slow_request(make_project(), 0.0), allowed_paths=(), acceptance_tests=())
    with stack.client() as client:
        run = client.wait(client.submit_request(incomplete, patience=PATIENCE), timeout=PATIENCE)
    assert run.failure is not None
    assert run.failure.code == "request_incomplete"
    assert "/allowed_paths" in run.failure.message
    assert "/acceptance_tests" in run.failure.message


def test_a_malformed_submission_is_answered_with_every_fault(stack: Stack) -> None:
    with stack.client() as client, pytest.raises(MalformedError) as refused:
        client.submit_request({"request": 5, "surprise": True})
    assert {fault.pointer for fault in refused.value.faults} >= {"/request", "/surprise", "/repository"}
