"""Asking all services of a bus at once, as the tools of NATS do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

Answers = list[dict[str, Any]]


async def answers_to(client: Client, subject: str, complete: Callable[[Answers], bool]) -> Answers:
    """What is answered to a question of the NATS services protocol, until ``complete`` returns true."""
    answers: Answers = []
    done = asyncio.Event()

    async def hear(message: Msg) -> None:
        answers.append(json.loads(message.data))
        if complete(answers):
            done.set()

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=hear)
    await client.publish(subject, b"", reply=inbox)
    try:
        await asyncio.wait_for(done.wait(), 20)
    except TimeoutError:
        raise AssertionError(f"{subject} was answered by {sorted(each['name'] for each in answers)} only") from None
    finally:
        await subscription.unsubscribe()
    return answers
