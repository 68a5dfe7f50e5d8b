"""Reads what a client sends: its body, within bounds of size and time, and the few headers that go on to a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from gatewright.contracts.strict_json import parse
from gatewright.errors import MalformedError
from gatewright.models.apis.endpoints import MESSAGES_VERSION

# Limits of a task's use of its gateway, besides its budget: sizes, counts and times that no honest client reaches.
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Bytes and seconds. ``calls`` at a time are answered and ``waiting`` more wait; further ones are refused.

    ``records`` is the number of calls of a task, ``recorded_bytes`` how large their cassette may be.
    """

    request_bytes: int = 32 * _MIB
    reply_bytes: int = 64 * _MIB
    header_count: int = 64
    header_bytes: int = 16_384
    connections: int = 64
    calls: int = 8
    waiting: int = 32
    #: A client that sends no whole request head, or no byte of a body.
    client_idle: float = 30.0
    #: A whole body; and a client that does not take what is sent.
    client_seconds: float = 300.0
    connect_seconds: float = 15.0
    #: Seconds without data from a provider.
    upstream_idle: float = 300.0
    #: Seconds for one call, with all its attempts.
    call_seconds: float = 3600.0
    #: Tries of one model before the next one; the longest wait between two.
    attempts: int = 4
    longest_wait: float = 60.0
    first_wait: float = 0.5
    records: int = 20_000
    recorded_bytes: int = 64 * _MIB


#: A document beyond this is parsed in a thread.
_LARGE = 1 << 18
#: Headers of a client that the Messages API needs, with the characters that their values may have.
_HEADERS: Mapping[str, frozenset[str]] = {
    "anthropic-version": frozenset("0123456789-"),
    "anthropic-beta": frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_., "),
}
_LONGEST_HEADER = 2000
#: Parts of the names of betas that let the provider reach further than the reply.
_WIDER = ("mcp-client", "code-execution", "web-", "files-api", "skills", "computer-use")


async def read_body(http: web.BaseRequest, limits: GatewayLimits) -> bytes:
    """The request's body. Raises MalformedError for one that is too large, packed, cut off or too slow."""
    if http.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise MalformedError("send the body as it is, not packed", code="model_request_invalid")
    if (http.content_length or 0) > limits.request_bytes:
        raise _too_large(limits)
    if http.headers.get("Expect", "").lower() == "100-continue" and http.transport is not None:
        http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.client_seconds):
            while True:
                async with asyncio.timeout(limits.client_idle):
                    part = await http.content.readany()
                if not part:
                    return b"".join(parts)
                size += len(part)
                if size > limits.request_bytes:
                    raise _too_large(limits)
                parts.append(part)
    except TimeoutError:
        raise MalformedError("the body did not come in time", code="model_request_invalid") from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise MalformedError("the body ended before its end", code="model_request_invalid") from error


async def parse_body(data: bytes) -> object:
    """``data`` as JSON. Raises MalformedError (``model_request_invalid``)."""
    return await asyncio.to_thread(_parse, data) if len(data) > _LARGE else _parse(data)


def forwarded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that the Messages API needs: the version, and the betas that do not let the provider reach further."""
    sent = {"anthropic-version": MESSAGES_VERSION}
    for name, characters in _HEADERS.items():
        value = headers.get(name, "")
        if value and len(value) <= _LONGEST_HEADER and characters.issuperset(value):
            sent[name] = value
    betas = [each.strip() for each in sent.pop("anthropic-beta", "").split(",")]
    kept = [each for each in betas if each and not any(word in each for word in _WIDER)]
    return {**sent, "anthropic-beta": ",".join(kept)} if kept else sent


def _parse(data: bytes) -> object:
    try:
        return parse(data)
    except MalformedError as error:
        raise MalformedError(f"the body is no JSON: {error.message}", code="model_request_invalid") from None


def _too_large(limits: GatewayLimits) -> MalformedError:
    return MalformedError(f"a request has at most {limits.request_bytes} bytes", code="model_request_too_large")
