"""Gets a reply for a request: tries the models of its route in order, each several times where waiting can help. Nothing is passed on yet."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from gatewright.errors import ConfigurationError, DeniedError, GatewrightError, UnavailableError
from gatewright.models.apis.requests import ModelRequest, addressed, admit
from gatewright.models.gateway.limits import GatewayLimits
from gatewright.models.gateway.upstream import Order, Upstream, UpstreamReply
from gatewright.models.policy import Model, ModelsPolicy, Provider

#: Statuses that pass by themselves.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_OK = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_KEY_REFUSED = frozenset({401, 403})


class KeyRefusedError(ConfigurationError):
    """A provider does not take the key that the policy refers to. Correct the key; it is not tried again."""

    code = "model_key_refused"

    def __init__(self, provider: str, status: int) -> None:
        super().__init__(f"the provider {provider} refused the gateway's key ({status})")
        self.status = status


@dataclass(slots=True)
class Obtained:
    """A reply that may be passed on, and whose it is."""

    model: Model
    provider: Provider
    reply: UpstreamReply
    dropped: tuple[str, ...]


@dataclass(slots=True)
class Tries:
    """What was tried in vain, in words; ``last_status`` is what the client is told when nothing helps."""

    words: list[str] = field(default_factory=list)
    last_status: int = 502
    retry_after: float | None = None

    def add(self, provider: Provider, model: Model, why: str) -> None:
        self.words.append(f"{provider.name}/{model.name}: {why}"[:300])


class Attempts:
    """For one gateway. ``sleep`` and ``chance`` (0 to 1) are given, so that a test need not wait."""

    def __init__(
        self,
        policy: ModelsPolicy,
        upstream: Upstream,
        limits: GatewayLimits,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._upstream = upstream
        self._limits = limits
        self._chance = chance

    @asynccontextmanager
    async def reply(
        self, request: ModelRequest, route: tuple[str, ...], headers: Mapping[str, str], deadline: float, tries: Tries
    ) -> AsyncIterator[Obtained]:
        """The first usable reply; ``deadline`` is on the monotonic clock.

        Raises DeniedError and MalformedError for a request that may not be sent, UnavailableError (``model_unavailable``) when
        nothing helped, KeyRefusedError, ConfigurationError (``model_key_missing``).
        """
        candidates = self._candidates(request, route)
        async with AsyncExitStack() as stack:
            for number, (model, provider) in enumerate(candidates):
                admitted = admit(request, provider)
                order = Order(
                    endpoint=request.endpoint,
                    upstream_name=model.upstream_name,
                    body=json.dumps(
                        addressed(admitted, model.upstream_name), ensure_ascii=False, separators=(",", ":")
                    ).encode(),
                    stream=request.stream,
                    headers=headers,
                )
                is_last = number == len(candidates) - 1
                reply = await self._of_one(stack, model, provider, order, deadline, tries, is_last=is_last)
                if reply is not None:
                    yield Obtained(model, provider, reply, admitted.dropped)
                    return
        raise UnavailableError(f"no model could be had: {'; '.join(tries.words[-3:])}", code="model_unavailable")

    def _candidates(self, request: ModelRequest, route: tuple[str, ...]) -> list[tuple[Model, Provider]]:
        """The models of the route that speak the API of the request."""
        found = []
        for name in route:
            model = self._policy.model(name)
            provider = None if model is None else self._policy.provider(model.provider)
            if model is not None and provider is not None and request.endpoint.api in provider.apis:
                found.append((model, provider))
        if not found or found[0][0].name != route[0]:
            raise DeniedError(
                f"the model {route[0]} is not served by the API of {request.endpoint.path}", code="model_not_allowed"
            )
        return found

    async def _of_one(
        self,
        stack: AsyncExitStack,
        model: Model,
        provider: Provider,
        order: Order,
        deadline: float,
        tries: Tries,
        *,
        is_last: bool,
    ) -> UpstreamReply | None:
        """A reply of one model, after as many tries as it may have; None when the next model is to be tried."""
        for number in range(self._limits.attempts):
            attempt = AsyncExitStack()
            wait: float | None = None
            try:
                reply = await attempt.enter_async_context(self._upstream.sent(provider, order))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                # The words of such an error may quote what the provider sent: its kind says enough.
                tries.add(provider, model, type(error).__name__)
                tries.last_status = 502
            except ConfigurationError as error:
                tries.add(provider, model, error.reason)
                if is_last:
                    raise
                return None
            else:
                if _usable(reply):
                    stack.push_async_exit(attempt)
                    return reply
                await attempt.aclose()
                tries.add(provider, model, str(reply.status))
                if reply.status in _KEY_REFUSED:
                    raise KeyRefusedError(provider.name, reply.status)
                if reply.status not in _PASSING:
                    tries.words[-1] += " (no reply that can be passed on)"
                    tries.last_status = 502
                    return None
                tries.last_status = reply.status
                wait = tries.retry_after = _seconds(reply.retry_after)
            if number + 1 == self._limits.attempts or not await self._wait(number, wait, deadline):
                return None
        return None

    async def _wait(self, number: int, asked: float | None, deadline: float) -> bool:
        """Whether it was waited for the next try; False when that would take too long."""
        spread = self._limits.first_wait * 2**number
        seconds = spread * (0.5 + self._chance() / 2) if asked is None else asked + self._chance() * min(spread, 1.0)
        if seconds > self._limits.longest_wait or time.monotonic() + seconds >= deadline:
            return False
        await asyncio.sleep(seconds)
        return True


def status_of(error: GatewrightError, tries: Tries) -> int:
    """The status with which a client is told of ``error``."""
    match error.reason:
        case "model_unavailable":
            return tries.last_status
        case "budget_exceeded" | "model_calls_limit":
            return 429
        case "model_not_allowed":
            return 404
        case "endpoint_not_allowed" | "model_tool_not_allowed" | "model_field_not_allowed" | "model_content_not_allowed":
            return 403 if error.reason == "endpoint_not_allowed" else 400
        case "model_request_too_large":
            return 413
        case "model_request_invalid" | "cassette_miss":
            return 400
        case "model_key_refused":
            return error.status if isinstance(error, KeyRefusedError) else 401
        case "model_key_missing":
            return 401
        case _:
            return 502


def _usable(reply: UpstreamReply) -> bool:
    """A reply to the question, or an error that is the client's own; neither packed nor leading elsewhere."""
    if reply.encoded or reply.status in _KEY_REFUSED:
        return False
    return reply.status in _OK or (reply.status in _CLIENT_ERRORS and reply.status not in _PASSING)


def _seconds(text: str | None) -> float | None:
    """Of a ``Retry-After``; a date counts like none."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None
