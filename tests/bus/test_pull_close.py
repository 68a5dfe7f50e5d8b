"""How a pull is closed while a request of its lies open at the server."""

from __future__ import annotations

import contextlib

import pytest
from nats.aio.msg import Msg

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.pull import Pull
from tests.unauthenticated_nats import OpenServer

QUEUE = "tasks"


async def give_back(message: Msg) -> None:
    await message.nak()


@pytest.mark.parametrize("hurried", [False, True])
async def test_a_pull_waits_for_its_request_unless_in_haste(bare_server: OpenServer, *, hurried: bool) -> None:
    connection = await Connection.open(bare_server.url, name="test")
    stream = {"name": "S", "subjects": ["s"], "storage": "memory"}
    consumer = {"stream_name": "S", "config": {"durable_name": QUEUE, "ack_policy": "explicit"}}
    await connection.api("STREAM.CREATE.S", stream, ApiReply)
    await connection.api(f"CONSUMER.DURABLE.CREATE.S.{QUEUE}", consumer, ApiReply)
    pull = Pull(connection, "S", QUEUE, 1, give_back)
    assert await pull.next(0.0) is None
    connection.hurried = hurried
    closing, waits = pull.close(), False
    # As far as it comes without anything that happens elsewhere: a pull that waits hands out what it waits for.
    with contextlib.suppress(StopIteration):
        closing.send(None)
        waits = True
    assert waits is not hurried
    closing.close()
    await connection.close()
