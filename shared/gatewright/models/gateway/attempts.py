"""Gets a call answered: tries the models of its route in order, each several times where waiting can help."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from msgspec.structs import replace

from gatewright.errors import ConfigurationError, DeniedError, UnavailableError
from gatewright.models.apis.error_answers import error_name
from gatewright.models.apis.requests import ModelRequest, address_request, admit
from gatewright.models.gateway.reading import GatewayLimits
from gatewright.models.gateway.relay import BrokenReplyError
from gatewright.models.gateway.upstream import Upstream, UpstreamReply, UpstreamRequest
from gatewright.models.policy import ModelEntry, ModelsPolicy, Provider
from gatewright.models.records import SentBodies
from gatewright.models.transfers import TransferGuard, endpoint_of_provider
from gatewright.pause import retry_after_seconds

#: Statuses that pass by themselves.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_OK = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_KEY_REFUSED = frozenset({401, 403})
#: Errors with a temporary status that waiting does not resolve.
_LASTING = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
#: Limits for reading the body of an error, to find its name: bytes and seconds.
_ERROR_BYTES = 16 << 10
_ERROR_SECONDS = 2.0
_BAD_GATEWAY = 502
#: Maximum number of models whose failures a message lists.
_MOST_FAILURES = 3
#: Errors before a byte of a request is sent.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class KeyRefusedError(ConfigurationError):
    """A provider does not take the key that the policy refers to. Correct the key; it is not tried again."""

    code = "model_key_refused"

    def __init__(self, provider: str, status: int) -> None:
        super().__init__(f"the provider {provider} refused the gateway's key ({status})")
        self.status = status


@dataclass(frozen=True, slots=True)
class Obtained:
    """A usable reply, and the model that sent it."""

    model: ModelEntry
    provider: Provider
    reply: UpstreamReply
    dropped: tuple[str, ...]


@dataclass(slots=True)
class Tries:
    """The failed attempts, described.

    ``status`` and ``retry_after`` are the client's answer if all fail: those of the requested model, not of its
    substitutes. ``sent`` records all transfers, including that of the successful attempt. ``unanswered``: bodies sent
    without any reply, so that the provider's use of them is unknown.
    """

    words: list[str] = field(default_factory=list)
    status: int = _BAD_GATEWAY
    retry_after: float | None = None
    failures: dict[str, str] = field(default_factory=dict)
    sent: list[SentBodies] = field(default_factory=list)
    unanswered: int = 0

    def sends(self, provider: Provider, model: ModelEntry, size: int, guard: TransferGuard) -> None:
        """Record that one body of ``size`` bytes is about to be sent. Raises the refusal of ``guard``."""
        guard.check(provider, model, size)
        self.unanswered += 1
        endpoint, name = endpoint_of_provider(provider), model.upstream_name
        last = self.sent[-1] if self.sent else None
        if last is not None and (last.provider, last.endpoint, last.model) == (provider.name, endpoint, name):
            self.sent[-1] = replace(last, bodies=last.bodies + 1, bytes=last.bytes + size)
            return
        self.sent.append(
            SentBodies(
                provider=provider.name,
                endpoint=endpoint,
                model=name,
                bodies=1,
                bytes=size,
                internal=guard.stays(provider),
                manifest_sha256=guard.by_manifest(),
            )
        )

    def add(
        self, provider: Provider, model: ModelEntry, why: str, status: int = _BAD_GATEWAY, retry_after: float | None = None
    ) -> None:
        words = f"{provider.name}/{model.name}: {why}"[:300]
        self.words.append(words)
        self.failures[model.name] = words
        if next(iter(self.failures)) == model.name:
            self.status, self.retry_after = status, retry_after

    def summary(self) -> str:
        """Return the last failure of each model, the requested model's first."""
        more = len(self.failures) - _MOST_FAILURES
        named = "; ".join([*self.failures.values()][:_MOST_FAILURES])
        return f"{named}; and {more} more" if more > 0 else named


#: Passes a reply on. Raises BrokenReplyError before anything was passed on: then it is retried.
PassOn = Callable[[Obtained], Awaitable[None]]


Candidate = tuple[ModelEntry, Provider]


class _NextError(Exception):
    """This model is given up; try the next one."""


def candidates_of(policy: ModelsPolicy, request: ModelRequest, route: tuple[str, ...]) -> list[Candidate]:
    """Return the models of the route with the request's API.

    Raises DeniedError (``model_not_allowed``) if the requested model has another API.
    """
    found = []
    for name in route:
        model = policy.model(name)
        provider = None if model is None else policy.provider(model.provider)
        if model is not None and provider is not None and request.endpoint.api in provider.apis:
            found.append((model, provider))
    if not found or found[0][0].name != route[0]:
        raise DeniedError(f"the model {route[0]} is not served by the API of {request.endpoint.path}", code="model_not_allowed")
    return found


class Attempts:
    """The attempts of one gateway. ``chance`` (0 to 1) is passed in, so that tests know the waiting times."""

    def __init__(
        self, upstream: Upstream, limits: GatewayLimits, *, guard: TransferGuard, chance: Callable[[], float] = random.random
    ) -> None:
        self._upstream = upstream
        self._guard = guard
        self._limits = limits
        self._chance = chance

    async def answer(
        self,
        request: ModelRequest,
        candidates: Sequence[Candidate],
        headers: Mapping[str, str],
        deadline: float,
        tries: Tries,
        pass_on: PassOn,
    ) -> None:
        """Get a usable reply of one of ``candidates`` and pass it on; ``deadline`` is on the monotonic clock.

        Raises DeniedError and MalformedError for a request that may not be sent, UnavailableError (``model_unavailable``)
        if all fail, KeyRefusedError, ConfigurationError (``model_key_missing``), and the errors of ``pass_on``.
        """
        missing: list[ConfigurationError] = []
        for model, provider in candidates:
            admitted = await asyncio.to_thread(admit, request, provider)
            order = await asyncio.to_thread(_order, admitted, model, headers)
            try:
                await self._of_one(model, provider, order, admitted.dropped, deadline, tries, pass_on)
            except _NextError:
                continue
            except KeyRefusedError:
                if model is candidates[0][0]:
                    raise
                continue  # the operator first needs to know why the requested model could not answer
            except ConfigurationError as error:
                tries.unanswered -= 1  # the key was missing: nothing was sent
                tries.add(provider, model, error.reason)
                missing.append(error)
                continue
            return
        if missing and len(missing) == len(tries.words):
            raise missing[0]
        raise UnavailableError(f"no model could be had: {tries.summary()}", code="model_unavailable")

    async def _of_one(
        self,
        model: ModelEntry,
        provider: Provider,
        order: UpstreamRequest,
        dropped: tuple[str, ...],
        deadline: float,
        tries: Tries,
        pass_on: PassOn,
    ) -> None:
        """Pass on a reply of one model, within its number of attempts. Raises _NextError without one.

        Raises DeniedError (``transfer_not_approved``) before a forbidden transfer.
        """
        for number in range(self._limits.attempts):
            wait: float | None = None
            tries.sends(provider, model, len(order.body), self._guard)
            try:
                async with self._upstream.sent(provider, order) as reply:
                    tries.unanswered -= 1
                    if _usable(reply):
                        await pass_on(Obtained(model, provider, reply, dropped))
                        return
                    wait = retry_after_seconds(reply.retry_after)
                    await self._unusable(reply, provider, model, tries, wait)
            except BrokenReplyError as error:
                tries.add(provider, model, error.message)
            except _NOT_SENT as error:
                tries.unanswered -= 1
                tries.add(provider, model, type(error).__name__)
            except (aiohttp.ClientError, TimeoutError) as error:
                # The message of such an error may quote the provider's output; its type suffices.
                tries.add(provider, model, type(error).__name__)
            if number + 1 == self._limits.attempts or not await self._wait_for_retry(number, wait, deadline):
                break
        raise _NextError

    async def _unusable(
        self, reply: UpstreamReply, provider: Provider, model: ModelEntry, tries: Tries, wait: float | None
    ) -> None:
        """Note why a reply is not passed on. Raises KeyRefusedError, and _NextError when another try would not help."""
        if reply.status in _KEY_REFUSED:
            tries.add(provider, model, str(reply.status), reply.status)
            raise KeyRefusedError(provider.name, reply.status)
        if reply.status in _PASSING:
            name = await _name_of_error(reply)
            tries.add(provider, model, f"{reply.status} {name}".rstrip(), reply.status, wait)
            if name in _LASTING:
                raise _NextError
            return
        tries.add(provider, model, f"{reply.status}, packed or leading elsewhere: not passed on")
        raise _NextError

    async def _wait_for_retry(self, number: int, asked: float | None, deadline: float) -> bool:
        """Wait for the next attempt; return False instead if that would take too long."""
        spread = self._limits.first_wait * 2**number
        seconds = spread * (0.5 + self._chance() / 2) if asked is None else asked + self._chance() * min(spread, 1.0)
        if seconds > self._limits.longest_wait or time.monotonic() + seconds >= deadline:
            return False
        await asyncio.sleep(seconds)
        return True


def _order(request: ModelRequest, model: ModelEntry, headers: Mapping[str, str]) -> UpstreamRequest:
    body = json.dumps(address_request(request, model.upstream_name), ensure_ascii=False, separators=(",", ":"))
    return UpstreamRequest(request.endpoint, model.upstream_name, body.encode(), request.stream, headers)


def _usable(reply: UpstreamReply) -> bool:
    """Return whether it is an answer, or an error of the client; neither compressed nor a redirect."""
    if reply.encoded or reply.status in _KEY_REFUSED:
        return False
    return reply.status in _OK or (reply.status in _CLIENT_ERRORS and reply.status not in _PASSING)


async def _name_of_error(reply: UpstreamReply) -> str:
    """Return the provider's name for the error of ``reply``; empty without one."""
    body = b""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_ERROR_SECONDS):
            while not reply.encoded and len(body) < _ERROR_BYTES and (piece := await reply.content.read(_ERROR_BYTES)):
                body += piece
    return error_name(body)
