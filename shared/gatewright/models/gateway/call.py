"""One call of a client: from the bytes of its request to the last byte of its reply, and the record that is left of it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from gatewright.clock import Clock, timestamp
from gatewright.contracts.strict_json import parse
from gatewright.errors import BudgetError, DeniedError, GatewrightError, MalformedError, UnavailableError
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.apis.error_answers import error_body
from gatewright.models.apis.event_stream import EventReader
from gatewright.models.apis.requests import ModelRequest, read_request
from gatewright.models.apis.usage import greatest, is_end, reply_bytes, text_bytes, usage_of, written_bytes
from gatewright.models.cassettes import Cassette, Recorded, canonical_request
from gatewright.models.cassettes.cassette import as_piece
from gatewright.models.gateway.attempts import Attempts, Obtained, Tries, status_of
from gatewright.models.gateway.limits import GatewayLimits
from gatewright.models.gateway.spending import CallMeter, InputEstimate, Spending, nano_of
from gatewright.models.grant import Grant
from gatewright.models.policy import Api, ModelsPolicy
from gatewright.models.prices import Price, TokenUsage
from gatewright.models.records import CallRecord, CallRecords, sha256

_SSE = "text/event-stream"
_JSON = "application/json"
#: A body beyond this is read in a thread.
_LARGE = 1 << 18
#: Bytes of an error of a provider that are passed on, and of a reply that are kept for the record.
_ERROR_BYTES = 1 << 16
_KEPT_BYTES = 16 << 20
_CLOSED_BY_CLIENT = 499


@dataclass(frozen=True, slots=True)
class Shared:
    """What all calls of a gateway share."""

    policy: ModelsPolicy
    grant: Grant
    limits: GatewayLimits
    spending: Spending
    estimate: InputEstimate
    attempts: Attempts
    records: CallRecords
    cassette: Cassette | None
    clock: Clock
    deadline: float


@dataclass(slots=True)
class _Kept:
    """A reply as it was passed on: its pieces, unless it is too large for a record, and its digest."""

    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    digest: object = field(default_factory=hashlib.sha256)

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.digest.update(piece)  # type: ignore[attr-defined]
        if self.size <= _KEPT_BYTES:
            self.pieces.append(piece)

    @property
    def all_there(self) -> bool:
        return self.size <= _KEPT_BYTES


class ModelCall:
    """One request to one endpoint. Answers it, or lets it fail in the form of its API; always leaves a record."""

    def __init__(self, shared: Shared, http: web.BaseRequest, endpoint: Endpoint) -> None:
        self._shared = shared
        self._http = http
        self._endpoint = endpoint
        self._started = time.monotonic()
        self._time = timestamp(shared.clock.now())
        self._tries = Tries()
        self._kept = _Kept()
        self._request: ModelRequest | None = None
        self._canonical: bytes | None = None
        self._obtained: tuple[str, str] | None = None
        self._dropped: tuple[str, ...] = ()
        self._meter: CallMeter | None = None
        self._usage = TokenUsage()
        self._refused: str | None = None
        self._status = _CLOSED_BY_CLIENT
        self._whole = False
        self._response: web.StreamResponse | None = None

    async def answer(self) -> web.StreamResponse:
        """The response to the client; raises only what ends the connection."""
        try:
            return await self._answer()
        except GatewrightError as error:
            self._refused = error.reason
            if self._response is not None:  # a part of the reply is out: all that can be said is that it ends here
                self._abort()
                return self._response
            self._status = status_of(error, self._tries)
            return self._error(error)
        finally:
            self._settle()
            self._record()

    async def _answer(self) -> web.StreamResponse:
        shared = self._shared
        if shared.records.full:
            raise DeniedError("no further call of this task can be recorded", code="model_calls_limit")
        shared.spending.check()
        body = await self._body()
        request = self._request = read_request(self._endpoint, await _in_thread_if_large(parse_body, body))
        route = shared.grant.routes.get(request.model)
        if route is None:
            raise DeniedError(f"the model {request.model[:128]!r} is not one that this task may call", code="model_not_allowed")
        self._canonical = await asyncio.to_thread(canonical_request, request, shared.grant.paths)
        words = text_bytes(request.body)
        model = shared.policy.model(route[0])
        estimate = shared.estimate.of(route[0], words)
        if self._endpoint.action == "generate":
            shared.spending.foresee(estimate.total, nano_of(model and model.price, estimate))
            shared.spending.turn()
        if shared.cassette is not None and shared.cassette.plays:
            return await self._played(shared.cassette, self._canonical, estimate)
        deadline = min(shared.deadline, time.monotonic() + shared.limits.call_seconds)
        headers = _forwarded(self._http.headers) if self._endpoint.api == "messages" else {}
        try:
            async with (
                asyncio.timeout(deadline - time.monotonic()),
                shared.attempts.reply(request, route, headers, deadline, self._tries) as obtained,
            ):
                response = await self._passed_on(obtained, shared.estimate.of(obtained.model.name, words))
        except TimeoutError:
            raise UnavailableError("the time of the call is up", code="model_unavailable") from None
        if self._meter is not None and not self._meter.doubted and obtained.reply.status < 300:
            shared.estimate.learn(obtained.model.name, words, self._usage)
        return response

    async def _body(self) -> bytes:
        """The request's body. Raises MalformedError for one that is too large, packed, cut off or too slow."""
        limits, http = self._shared.limits, self._http
        if http.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise MalformedError("send the body as it is, not packed", code="model_request_invalid")
        if (http.content_length or 0) > limits.request_bytes:
            raise _too_large(limits)
        if http.headers.get("Expect", "").lower() == "100-continue" and http.transport is not None:
            http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        parts, size = [], 0
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

    async def _passed_on(self, obtained: Obtained, estimate: TokenUsage) -> web.StreamResponse:
        reply, model = obtained.reply, obtained.model
        self._obtained, self._dropped = (model.name, obtained.provider.name), obtained.dropped
        if reply.status >= 300:
            return await self._provider_error(obtained)
        meter = None
        if self._endpoint.action == "generate":
            meter = self._meter = CallMeter(self._shared.spending, model.price, estimate)
            meter.begin()
        try:
            if reply.content_type == _SSE:
                return await self._streamed(obtained, meter)
            return await self._in_one_piece(obtained, meter)
        except (web.PayloadAccessError, OSError) as error:
            raise UnavailableError(f"the reply broke off: {type(error).__name__}", code="model_unavailable") from None

    async def _streamed(self, obtained: Obtained, meter: CallMeter | None) -> web.StreamResponse:
        reader, api, scrubber = EventReader(), self._endpoint.api, obtained.reply.scrubber
        told: TokenUsage | None = None
        size = 0
        ended = False
        async for raw in obtained.reply.content.iter_any():
            size += len(raw)
            if size > self._shared.limits.reply_bytes:
                raise DeniedError("the reply is larger than any that is passed on", code="model_reply_too_large")
            words = 0
            for event in reader.feed(raw):
                words += written_bytes(api, event)
                told = greatest(told, usage_of(api, event))
                ended = ended or is_end(api, event)
            if meter is not None:
                meter.streamed(len(raw), words, told)
            await self._write(scrubber.feed(raw), _SSE)
        for event in reader.finish():
            told = greatest(told, usage_of(api, event))
            ended = ended or is_end(api, event)
        if meter is not None:
            meter.streamed(0, 0, told)
            self._usage = meter.settle()
        await self._write(scrubber.finish(), _SSE)
        self._whole = ended
        return await self._finished()

    async def _in_one_piece(self, obtained: Obtained, meter: CallMeter | None) -> web.StreamResponse:
        parts, size = [], 0
        async for raw in obtained.reply.content.iter_any():
            size += len(raw)
            if size > self._shared.limits.reply_bytes:
                raise DeniedError("the reply is larger than any that is passed on", code="model_reply_too_large")
            if meter is not None:
                meter.streamed(len(raw), 0, None)
            parts.append(raw)
        data = b"".join(parts)
        try:
            reply = await _in_thread_if_large(parse_body, data)
        except MalformedError:
            reply = None
        if not isinstance(reply, dict):
            raise UnavailableError("the provider's reply is no JSON object", code="model_reply_invalid")
        if meter is not None:
            meter.streamed(0, reply_bytes(self._endpoint.api, reply), usage_of(self._endpoint.api, reply))
            self._usage = meter.settle()
        await self._write(obtained.reply.scrubber.whole(data), _JSON)
        self._whole = True
        return await self._finished()

    async def _provider_error(self, obtained: Obtained) -> web.StreamResponse:
        """The provider says that the request is wrong: its words, if they are JSON, without the key."""
        data = b""
        async for raw in obtained.reply.content.iter_any():
            data += raw
            if len(data) > _ERROR_BYTES:
                break
        self._status = obtained.reply.status
        try:
            words = parse_body(data)
        except MalformedError:
            words = None
        if not isinstance(words, dict) or len(data) > _ERROR_BYTES:
            data = error_body(self._endpoint.api, self._status, "model_request_invalid", "the provider refused the request")
        await self._write(obtained.reply.scrubber.whole(data), _JSON, status=self._status)
        self._whole = True
        return await self._finished()

    async def _played(self, cassette: Cassette, canonical: bytes, estimate: TokenUsage) -> web.StreamResponse:
        recorded = await asyncio.to_thread(cassette.play, canonical)
        self._obtained = (recorded.model_used, recorded.provider)
        meter = self._meter = CallMeter(self._shared.spending, Price(input=0, output=0), TokenUsage())
        if self._endpoint.action == "generate":
            meter.streamed(0, 0, recorded.usage)
        self._usage = recorded.usage
        for piece in recorded.pieces:
            await self._write(piece, recorded.content_type, status=recorded.status)
        self._whole = recorded.whole
        if not recorded.whole:
            raise UnavailableError("the recorded reply ends here", code="model_unavailable")
        return await self._finished()

    async def _write(self, data: bytes, content_type: str, *, status: int = 200) -> None:
        if self._response is None:
            self._status = status
            response = web.StreamResponse(status=status, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
            await response.prepare(self._http)
            self._response = response
        if not data:
            return
        self._kept.add(data)
        try:
            async with asyncio.timeout(self._shared.limits.client_seconds):
                await self._response.write(data)
        except TimeoutError:
            raise UnavailableError("the client does not take the reply", code="model_unavailable") from None

    async def _finished(self) -> web.StreamResponse:
        if self._response is None:
            raise UnavailableError("the provider's reply is empty", code="model_reply_invalid")
        await self._response.write_eof()
        return self._response

    def _abort(self) -> None:
        if self._http.transport is not None:
            self._http.transport.abort()

    def _error(self, error: GatewrightError) -> web.Response:
        body = error_body(self._endpoint.api, self._status, error.reason, error.message)
        self._kept.add(body)
        # What is refused stays refused: the vendors' clients heed this header, and do not ask again.
        headers = {"x-should-retry": "false"}
        if error.reason == "model_unavailable":
            headers = {} if self._tries.retry_after is None else {"Retry-After": str(int(self._tries.retry_after) + 1)}
        return web.Response(status=self._status, body=body, content_type=_JSON, headers=headers)

    def _settle(self) -> None:
        """A reply that ended early counts for what was seen of it."""
        if self._meter is None or self._usage.total:
            return
        try:
            self._usage = self._meter.settle()
        except BudgetError:
            self._usage = self._meter.usage

    def _record(self) -> None:
        shared, meter, request = self._shared, self._meter, self._request
        played = shared.cassette is not None and shared.cassette.plays
        record = CallRecord(
            number=len(shared.records.calls) + 1,
            time=self._time,
            role=shared.grant.role,
            endpoint=self._endpoint.path,
            status=self._status,
            seconds=round(time.monotonic() - self._started, 3),
            model=None if request is None else request.model[:128],
            model_used=self._obtained and self._obtained[0],
            provider=self._obtained and self._obtained[1],
            input_tokens=self._usage.input,
            cached_tokens=self._usage.cached,
            output_tokens=self._usage.output,
            cost_usd=None if meter is None else meter.cost_usd,
            request_sha256=None if self._canonical is None else sha256(self._canonical),
            reply_sha256=self._kept.digest.hexdigest(),  # type: ignore[attr-defined]
            cassette_sha256=shared.cassette.sha256 if shared.cassette is not None else None,
            tried=tuple(self._tries.words[:32]),
            dropped=self._dropped,
            refused=self._refused,
            whole=self._whole,
            played=played,
            usage_doubted=meter is not None and meter.doubted,
        )
        reply = b"".join(self._kept.pieces) if self._kept.all_there else b""
        shared.records.add(record, *(each for each in (self._canonical, reply) if each))
        if shared.cassette is not None and not played and self._obtained is not None and self._canonical is not None:
            self._to_cassette(shared.cassette, self._canonical, *self._obtained)

    def _to_cassette(self, cassette: Cassette, canonical: bytes, model: str, provider: str) -> None:
        usage = self._usage
        cassette.record(
            Recorded(
                request_sha256=sha256(canonical),
                request=canonical.decode(),
                status=self._status,
                content_type=self._response.content_type if self._response is not None else _JSON,
                reply=tuple(map(as_piece, self._kept.pieces)),
                whole=self._whole and self._kept.all_there,
                model_used=model,
                provider=provider,
                input_tokens=usage.input,
                cached_tokens=usage.cached,
                cache_written_tokens=usage.cache_written,
                output_tokens=usage.output,
            )
        )


def parse_body(data: bytes) -> object:
    """``data`` as JSON. Raises MalformedError (``model_request_invalid``)."""
    try:
        return parse(data)
    except MalformedError as error:
        raise MalformedError(f"the body is no JSON: {error.message}", code="model_request_invalid") from None


async def _in_thread_if_large(work: object, data: bytes) -> object:
    return await asyncio.to_thread(parse_body, data) if len(data) > _LARGE else parse_body(data)


def _too_large(limits: GatewayLimits) -> MalformedError:
    return MalformedError(f"a request has at most {limits.request_bytes} bytes", code="model_request_too_large")


#: Headers of a client that the Messages API needs, with the characters that their values may have.
_HEADERS: Mapping[str, frozenset[str]] = {
    "anthropic-version": frozenset("0123456789-"),
    "anthropic-beta": frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_., "),
}
#: Parts of names of betas that let the provider reach further than the reply.
_WIDER = ("mcp-client", "code-execution", "web-", "files-api", "skills", "computer-use")
_VERSION = "2023-06-01"


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    sent = {"anthropic-version": _VERSION}
    for name, characters in _HEADERS.items():
        value = headers.get(name, "")
        if value and len(value) <= 2000 and characters.issuperset(value):
            sent[name] = value
    betas = [each.strip() for each in sent.pop("anthropic-beta", "").split(",")]
    kept = [each for each in betas if each and not any(word in each for word in _WIDER)]
    return {**sent, "anthropic-beta": ",".join(kept)} if kept else sent


def api_of(endpoint: Endpoint | None) -> Api | None:
    return None if endpoint is None else endpoint.api
