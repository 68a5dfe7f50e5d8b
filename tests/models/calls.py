"""Gateways before a scripted provider, and one request of each API to send to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from gatewright.budgets import Spend, spend_freely
from gatewright.contracts.vocabulary import Budget
from gatewright.models.cassettes import Cassette
from gatewright.models.gateway import GatewayLimits, ModelGateway
from gatewright.models.policy import ModelsPolicy
from tests.models.provider import ScriptedProvider
from tests.models.wire_forms import Api

APIS: tuple[Api, ...] = ("responses", "chat_completions", "messages", "gemini")
#: No waiting between tries.
QUICK = GatewayLimits(first_wait=0.001, attempts=2)


def make_gateway(
    provider: ScriptedProvider,
    script: str = "say",
    *,
    budget: Budget | None = None,
    limits: GatewayLimits = QUICK,
    spend: Spend = spend_freely,
    playing: Cassette | None = None,
    task: str = "",
    texts: bool = True,
    prices: Mapping[str, float] | None = None,
) -> ModelGateway:
    """A gateway for a worker, by ``provider.policy(script)``."""
    policy = ModelsPolicy.model_validate({**provider.policy(script, prices=prices), "keep_texts": texts})
    grant = policy.grant("worker", budget=budget)
    return ModelGateway(policy, grant, limits=limits, spend=spend, task=task, playing=playing)


def request_of(api: Api, text: str = "hello", *, streamed: bool = False, **fields: Any) -> tuple[str, dict[str, Any]]:
    """The path and the body of a request."""
    user = {"role": "user", "content": text}
    body: dict[str, Any]
    match api:
        case "responses":
            path, body = "/v1/responses", {"model": "scripted", "input": [user], "stream": streamed}
        case "chat_completions":
            path, body = "/v1/chat/completions", {"model": "scripted", "messages": [user], "stream": streamed}
        case "messages":
            path, body = "/v1/messages?beta=true", {"model": "scripted-claude", "max_tokens": 99, "messages": [user]}
            body["stream"] = streamed
        case "gemini":
            action = "streamGenerateContent?alt=sse" if streamed else "generateContent"
            path = f"/v1beta/models/scripted-gemini:{action}"
            body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    return path, body | fields


@dataclass(frozen=True)
class Got:
    """What a client got. ``text`` is all that came, also of a reply that was cut."""

    status: int
    text: str
    headers: Mapping[str, str]
    whole: bool = True


async def ask(gateway: ModelGateway, path: str, body: object, headers: Mapping[str, str] | None = None) -> Got:
    """One call through ``gateway``, from a client of its own."""

    async with gateway.client() as client, client.post(path, json=body, headers=headers) as reply:
        parts: list[bytes] = []
        whole = True
        try:
            while part := await reply.content.readany():
                parts.append(part)
        except aiohttp.ClientError:
            whole = False
        return Got(reply.status, b"".join(parts).decode("utf-8", "replace"), dict(reply.headers), whole)


async def raw(gateway: ModelGateway, data: bytes, *, most: float = 30.0) -> bytes:
    """All that ``data``, sent as it is, is answered with until the connection is closed (or ``most`` seconds are over)."""
    async with gateway.private() as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        try:
            writer.write(data)
            await writer.drain()
            return await asyncio.wait_for(reader.read(), most)
        except ConnectionError:
            return b""
        finally:
            writer.close()
