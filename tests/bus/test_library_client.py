"""What the NATS library's own stores, pulls and services cannot do, against a real server; and ours beside them.

When one of these fails because the library has learned it, our own code for it has lost its reason.
"""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.client import Client
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.errors import APIError, KeyWrongLastSequenceError
from nats.js.object_store import ObjectStore
from nats.micro import Request, add_service

from gatewright.bus.artifacts import digest_in
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.object_store import SIZE_HEADER
from gatewright.bus.topology import LOCK_BUCKET, LOCK_STREAM, artifact_subject, task_consumers
from tests.bus.backends import Raw
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE

(TASKS, *_) = task_consumers("worker")
#: Far longer than any test: what goes back within one was given back.
ACK_WAIT = 60.0


async def an_open_request(stream: JetStreamContext, name: str, consumer: str) -> None:
    """Return once the server knows of one request that waits for a message."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if (await stream.consumer_info(name, consumer)).num_waiting == 1:
                return


async def test_a_library_object_store_cannot_write_where_headers_are_ignored(bare_server: OpenServer, connect_raw: Raw) -> None:
    """A roll-up is a command to the server that removes what others have written; its streams have to obey them."""
    stream = (await connect_raw(bare_server)).jetstream()
    await stream.add_stream(name="OBJ_files", subjects=["$O.files.C.>", "$O.files.M.>"], allow_rollup_hdrs=False)
    with pytest.raises(APIError, match="rollup"):
        await ObjectStore("files", "OBJ_files", stream).put("artifact", b"bytes")


async def test_in_a_library_object_store_writers_replace_each_others_objects(nats_server: OpenServer, connect_raw: Raw) -> None:
    """Its subjects do not say who writes, so no permission can hold a writer to what is its own."""
    first, second = [(await connect_raw(nats_server)).jetstream() for _ in range(2)]
    await (await first.create_object_store("files")).put("artifact", b"what was reviewed")
    await (await second.object_store("files")).put("artifact", b"something else")
    assert (await (await first.object_store("files")).get("artifact")).data == b"something else"

    worker, other = [await JetStreamBus.connect(nats_server.url, name=name) for name in ("worker", "reviewer")]
    uri = await worker.put_artifact(b"what was reviewed")
    raw = await connect_raw(nats_server)
    forged = artifact_subject("reviewer", digest_in(uri), 0)
    await raw.jetstream().publish(forged, b"something else", headers={SIZE_HEADER: "14"})
    assert await other.get_artifact(uri) == b"what was reviewed"
    for bus in (worker, other):
        await bus.close()


async def test_reading_a_library_object_store_creates_a_consumer(bare_server: OpenServer, connect_raw: Raw) -> None:
    """So a reader needs the right to create consumers, with subjects and address of its choice; ours ask for messages."""
    raw = await connect_raw(bare_server)
    store = await raw.jetstream().create_object_store("files")
    await store.put("artifact", b"bytes")
    made = await raw.subscribe("$JS.EVENT.ADVISORY.CONSUMER.CREATED.OBJ_files.>")
    await raw.flush()
    await store.get("artifact")
    assert await made.next_msg(timeout=PATIENCE)


async def test_a_repeated_library_key_value_write_conflicts_with_itself(nats_server: OpenServer, connect_raw: Raw) -> None:
    """Nothing in the refusal says that the value which is in the way is one's own."""
    bucket = await (await connect_raw(nats_server)).jetstream().create_key_value(bucket="keys")
    await bucket.update("path", b"mine", last=0)
    with pytest.raises(KeyWrongLastSequenceError):
        await bucket.update("path", b"mine", last=0)

    bus = await JetStreamBus.connect(nats_server.url, name="gatekeeper")
    subject = f"$KV.{LOCK_BUCKET}.path"
    one, again = [
        await bus._storage.store(LOCK_STREAM, subject, b"mine", message_id="of this write", expected=0) for _ in range(2)
    ]
    assert (one.sequence, again.sequence, again.duplicate) == (one.sequence, one.sequence, True)
    await bus.close()


async def test_a_library_key_value_bucket_cannot_be_purged_without_headers(nats_server: OpenServer, connect_raw: Raw) -> None:
    bucket = await (await connect_raw(nats_server)).jetstream().key_value(LOCK_BUCKET)
    await bucket.put("path", b"held")
    with pytest.raises(APIError, match="rollup"):
        await bucket.purge("path")


async def test_a_cancelled_library_pull_keeps_its_message(nats_server: OpenServer, connect_raw: Raw) -> None:
    """It cannot be taken back, and nothing settles what it brings: the task is with nobody until ``ack_wait`` is over."""
    one, other = [(await connect_raw(nats_server)).jetstream() for _ in range(2)]
    consumer = "library"
    await one.add_stream(name="WORK", subjects=["work"], retention="workqueue")
    await one.add_consumer("WORK", durable_name=consumer, ack_policy="explicit", ack_wait=ACK_WAIT)
    pull, second = [await each.pull_subscribe_bind(consumer=consumer, stream="WORK") for each in (one, other)]
    given_up = asyncio.create_task(pull.fetch(1, timeout=30))
    await an_open_request(one, "WORK", consumer)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    await one.publish("work", b"task")
    with pytest.raises(NatsTimeoutError):
        await second.fetch(1, timeout=1)
    assert (await one.consumer_info("WORK", consumer)).num_ack_pending == 1


async def test_a_cancelled_pull_of_ours_returns_its_message(nats_server: OpenServer, connect_raw: Raw) -> None:
    raw = (await connect_raw(nats_server)).jetstream()
    one, other = [await JetStreamBus.connect(nats_server.url, name=name) for name in ("worker-1", "worker-2")]
    leaving, staying = [await each.consume(TASKS) for each in (one, other)]
    given_up = asyncio.create_task(leaving.next(30))
    await an_open_request(raw, TASKS.stream, TASKS.durable)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    await raw.publish(TASKS.subject, b"task", headers={"Nats-Msg-Id": "task"})
    delivery = await staying.next(TASKS.ack_wait / 2)
    assert delivery is not None
    assert delivery.message.data == b"task"
    await delivery.ack()
    for bus in (one, other):
        await bus.close()


# The library asks for the time in a way that Python 3.12 warns of.
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
async def test_a_service_of_the_library_answers_wherever_a_request_names(bare_server: OpenServer, connect_raw: Raw) -> None:
    """Where it may publish to a ledger, an asker has it write there; ours answers to inboxes only."""
    serving, asking = [await connect_raw(bare_server) for _ in range(2)]
    await serving.jetstream().add_stream(name="LEDGER", subjects=["ledger.>"])
    service = await add_service(serving, name="library", version="1.0.0")

    async def answer(request: Request) -> None:
        await request.respond(b"an entry")

    await service.add_endpoint(name="ask", subject="ask", handler=answer)
    async with asyncio.timeout(PATIENCE):
        # Asked again: a flush of the library may pass what was subscribed before it, and the request would find no service.
        while not (await asking.jetstream(timeout=60).stream_info("LEDGER")).state.messages:
            await asking.publish("ask", b"", reply="ledger.forged")
            await asking.flush(60)
    assert (await asking.jetstream().get_last_msg("LEDGER", "ledger.forged")).data == b"an entry"
    await service.stop()


async def test_an_answer_after_a_flush_timeout_ends_the_library_reader() -> None:
    client = Client()
    given_up: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    client._pongs.append(given_up)
    given_up.cancel()  # as its flush does
    with pytest.raises(asyncio.InvalidStateError):
        await client._process_pong()
