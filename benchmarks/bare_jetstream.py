"""The bare rate of JetStream: synced publishes that are delivered to one pull consumer and acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import nats
from nats.js.api import RetentionPolicy, StreamConfig

from gatewright.app.stack.nats_server import NatsServer

MESSAGES = 3000
PAYLOAD = bytes(3000)
_USER = {"user": "bench", "password": "only-on-loopback"}


async def bare_rate(folder: Path, in_flight: int, messages: int = MESSAGES) -> float:
    """Messages a second with ``in_flight`` publishes waiting for their answer at a time, on a server of its own."""
    server = await NatsServer.launch(folder, {"BARE": {"jetstream": "enabled", "users": [_USER]}}, folder)
    client = await nats.connect(server.url, **_USER)
    try:
        jetstream = client.jetstream()
        await jetstream.add_stream(StreamConfig("BARE", subjects=["bare"], retention=RetentionPolicy.WORK_QUEUE))
        pulling = await jetstream.pull_subscribe("bare", "bare")

        async def publish(number: int) -> None:
            for item in range(number, messages, in_flight):
                await jetstream.publish("bare", PAYLOAD, headers={"Nats-Msg-Id": str(item)})

        async def consume() -> None:
            left = messages
            while left:
                for message in await pulling.fetch(min(left, 64), timeout=10):
                    await message.ack()
                    left -= 1

        started = time.perf_counter()
        await asyncio.gather(consume(), *map(publish, range(in_flight)))
        await client.flush()
        return messages / (time.perf_counter() - started)
    finally:
        await client.close()
        await server.stop()
