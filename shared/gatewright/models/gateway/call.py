"""One call of a client: admitted, sent or replayed, answered, settled, and recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gatewright.canary import canary_spans
from gatewright.clock import Clock, timestamp
from gatewright.errors import BudgetError, DeniedError, GatewrightError, UnavailableError
from gatewright.models.apis.endings import ending_of_recorded
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.apis.error_answers import error_body
from gatewright.models.apis.requests import ModelRequest, admit, read_request
from gatewright.models.apis.usage import text_bytes
from gatewright.models.cassettes import Cassette, CassetteWriter, Recorded, canonical_request
from gatewright.models.cassettes.cassette import as_piece
from gatewright.models.gateway.attempts import Attempts, Candidate, KeyRefusedError, Obtained, Tries, candidates_of
from gatewright.models.gateway.client_reply import ClientReply
from gatewright.models.gateway.reading import GatewayLimits, forwarded_headers, parse_body, read_body
from gatewright.models.gateway.relay import STREAM_TYPE, BrokenReplyError, Relay
from gatewright.models.gateway.spending import CallMeter, InputEstimate, Spending, nano_of
from gatewright.models.policy import ModelEntry, ModelGrant, ModelsPolicy
from gatewright.models.prices import TokenUsage, free
from gatewright.models.records import CallRecord, CallRecords, sha256
from gatewright.models.transfers import NOT_APPROVED
from gatewright.tracing import conventions as c
from gatewright.tracing.spans import AttributeValue, open_span

_OK = 300
#: The HTTP status for each reason.
_STATUSES = {
    "budget_exceeded": 429,
    "model_calls_limit": 429,
    "model_not_allowed": 404,
    "model_tool_not_allowed": 400,
    "model_field_not_allowed": 400,
    "model_content_not_allowed": 400,
    "model_request_invalid": 400,
    "model_request_too_large": 413,
    "model_key_missing": 401,
    "cassette_miss": 400,
    NOT_APPROVED: 403,
}
_BAD_GATEWAY = 502
#: Reasons that end the task: not recorded, where calls are played; not approved to be sent.
_FINAL = frozenset({"cassette_miss", NOT_APPROVED, "canary_leaked"})


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared state of a gateway's calls. ``deadline`` is on the monotonic clock; ``playing`` is the cassette being replayed,
    if any, and ``refusals`` are final refusals, which stand however the client handles them."""

    policy: ModelsPolicy
    grant: ModelGrant
    limits: GatewayLimits
    spending: Spending
    estimate: InputEstimate
    attempts: Attempts
    records: CallRecords
    recording: CassetteWriter
    playing: Cassette | None
    refusals: list[GatewrightError]
    refused: asyncio.Event
    clock: Clock
    deadline: float


class ModelCall:
    """One request to one endpoint. Answers it, or fails it in the form of its API; always leaves a record."""

    def __init__(self, shared: Shared, http: web.BaseRequest, endpoint: Endpoint) -> None:
        self._shared = shared
        self._http = http
        self._endpoint = endpoint
        self._client = ClientReply(http, shared.limits)
        self._started = time.monotonic()
        self._begun = time.time_ns()
        self._time = timestamp(shared.clock.now())
        self._tries = Tries()
        #: One per reply that began; all but the last were interrupted.
        self._meters: list[CallMeter] = []
        self._request: ModelRequest | None = None
        self._canonical: bytes | None = None
        self._model_used: str | None = None
        self._provider: str | None = None
        self._ending: str | None = None
        self._dropped: tuple[str, ...] = ()
        self._refused: str | None = None

    async def answer(self) -> web.StreamResponse:
        """The response to the client; raises only what ends the connection."""
        try:
            return await self._answer_call()
        except GatewrightError as error:
            self._refused = error.reason
            if error.reason in _FINAL:
                self._shared.refusals.append(error)
                self._shared.refused.set()
            begun = self._client.cut()
            return self._error(error) if begun is None else begun
        finally:
            usage = self._settle_usage()
            if self._incomplete:
                self._shared.spending.lost()
            self._record(usage)
            self._to_cassette(usage)

    async def _answer_call(self) -> web.StreamResponse:
        shared = self._shared
        if shared.records.full:
            raise DeniedError("no further call of this task can be recorded", code="model_calls_limit")
        shared.spending.check()
        request = self._request = read_request(self._endpoint, await parse_body(await read_body(self._http, shared.limits)))
        route = shared.grant.routes.get(request.model)
        if route is None:
            raise DeniedError(f"the model {request.model[:128]!r} is not one that this task may call", code="model_not_allowed")
        candidates = candidates_of(shared.policy, request, route)
        self._canonical = await asyncio.to_thread(canonical_request, request, shared.grant.paths)
        # Also for replays: a cassette permits nothing. And before the turn is counted.
        await asyncio.to_thread(admit, request, candidates[0][1])
        if await asyncio.to_thread(canary_spans, self._canonical):
            raise DeniedError("the request to a model holds the canary of a box", code="canary_leaked")
        words = text_bytes(request.body)
        if self._endpoint.action == "generate":
            self._begin_turn(candidates[0][0], words, free=shared.playing is not None)
        if shared.playing is not None:
            await self._play(shared.playing, self._canonical)
        else:
            await self._send(request, candidates, words)
        return await self._client.finished()

    def _begin_turn(self, model: ModelEntry, words: int, *, free: bool) -> None:
        """Raises BudgetError when the call, or what it will read alone, is more than there is left."""
        if not free:
            estimate = self._shared.estimate.of(model.name, words)
            self._shared.spending.foresee(estimate.total, nano_of(model.price, estimate))
        self._shared.spending.turn()

    async def _send(self, request: ModelRequest, candidates: Sequence[Candidate], words: int) -> None:
        shared = self._shared
        deadline = min(shared.deadline, time.monotonic() + shared.limits.call_seconds)
        headers = forwarded_headers(self._http.headers) if self._endpoint.api == "messages" else {}

        async def pass_on(obtained: Obtained) -> None:
            try:
                await self._pass_on(obtained, words)
            except BrokenReplyError as error:
                if self._client.begun:
                    raise UnavailableError(error.message, code="model_unavailable") from None
                raise

        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                await shared.attempts.answer(request, candidates, headers, deadline, self._tries, pass_on)
        except TimeoutError:
            raise UnavailableError("the time of the call is up", code="model_unavailable") from None

    async def _pass_on(self, obtained: Obtained, words: int) -> None:
        shared, name = self._shared, obtained.model.name
        self._model_used, self._provider, self._dropped = name, obtained.provider.name, obtained.dropped
        meter = None
        if self._endpoint.action == "generate" and obtained.reply.status < _OK:
            meter = CallMeter(shared.spending, obtained.model.price, shared.estimate.of(name, words))
            self._meters.append(meter)
            meter.begin()
        relay = Relay(self._endpoint, obtained.reply, self._client, meter, shared.limits)
        try:
            await relay.pass_on()
        finally:
            self._ending = relay.ending if self._endpoint.action == "generate" else None
        if meter is not None:
            meter.complete = self._client.whole
        if meter is not None and meter.believed is not None:
            shared.estimate.learn(name, words, meter.believed)

    async def _play(self, cassette: Cassette, canonical: bytes) -> None:
        recorded = cassette.find(canonical)
        if recorded is None:
            raise await asyncio.to_thread(cassette.miss, canonical)
        self._model_used, self._provider = recorded.model_used, recorded.provider
        meter = CallMeter(self._shared.spending, free(), TokenUsage())
        self._meters.append(meter)
        meter.count_streamed(0, 0, recorded.usage)
        for piece in recorded.pieces:
            await self._client.write(piece, recorded.content_type, status=recorded.status)
        if self._endpoint.action == "generate" and recorded.status < _OK:
            streamed = recorded.content_type == STREAM_TYPE
            self._ending = ending_of_recorded(self._endpoint.api, b"".join(recorded.pieces), streamed=streamed)
        self._client.whole = meter.complete = recorded.whole
        if not recorded.whole:
            raise UnavailableError("the recorded reply ends here", code="model_unavailable")

    def _error(self, error: GatewrightError) -> web.Response:
        status = _STATUSES.get(error.reason, _BAD_GATEWAY)
        # A refusal is final: the vendors' clients heed this header, and do not retry.
        headers = {"x-should-retry": "false"}
        if isinstance(error, KeyRefusedError):
            status = error.status
        elif error.reason == "model_unavailable":
            status, after = self._tries.status, self._tries.retry_after
            headers = {} if after is None else {"Retry-After": str(int(after) + 1)}
        return self._client.instead(status, error_body(self._endpoint.api, status, error.reason, error.message), headers)

    def _settle_usage(self) -> TokenUsage:
        """Return the usage of all replies; an interrupted one is included as far as seen."""
        total = TokenUsage()
        for meter in self._meters:
            try:
                used = meter.settle()
            except BudgetError:  # already recorded, or reported to the next call
                used = meter.usage
            total = total.plus(used)
        return total

    @property
    def _incomplete(self) -> bool:
        """Return whether a provider may charge more than was seen of its replies."""
        return self._tries.unanswered > 0 or not all(meter.complete for meter in self._meters)

    def _record(self, usage: TokenUsage) -> None:
        shared, request, client = self._shared, self._request, self._client
        if shared.records.full and self._request is None:
            return  # refused for that very reason
        costs = [meter.cost_usd for meter in self._meters]
        record = CallRecord(
            number=len(shared.records.calls) + 1,
            time=self._time,
            role=shared.grant.role,
            endpoint=self._endpoint.path,
            status=client.status,
            seconds=round(time.monotonic() - self._started, 3),
            model=None if request is None else request.model[:128],
            model_used=self._model_used,
            provider=self._provider,
            input_tokens=usage.input,
            cached_tokens=usage.cached,
            output_tokens=usage.output,
            cost_usd=None if not costs or None in costs else sum(cost for cost in costs if cost is not None),
            request_sha256=None if self._canonical is None else sha256(self._canonical),
            reply_sha256=client.sha256,
            cassette_sha256=None if shared.playing is None else shared.playing.sha256,
            sent=tuple(self._tries.sent),
            tried=tuple(self._tries.words[:32]),
            dropped=self._dropped,
            refused=self._refused,
            whole=client.whole,
            played=shared.playing is not None,
            usage_doubted=any(meter.doubted for meter in self._meters),
            ending=self._ending,
            incomplete=self._incomplete,
        )
        shared.records.add(record)
        report_call(record, self._endpoint, self._begun)

    def _to_cassette(self, usage: TokenUsage) -> None:
        """Record the provider's reply, its absence, or the refusal; also for a replayed call."""
        canonical, client = self._canonical, self._client
        if canonical is None:
            return
        asked = self._model_used is not None or self._tries.words
        self._shared.recording.record(
            Recorded(
                request_sha256=sha256(canonical),
                request=canonical.decode("utf-8", "replace"),
                status=client.status,
                content_type=client.content_type,
                reply=tuple(map(as_piece, client.pieces)),
                whole=client.whole and client.is_kept,
                model_used=self._model_used or "",
                provider=self._provider or "",
                input_tokens=usage.input,
                cached_tokens=usage.cached,
                cache_written_tokens=usage.cache_written,
                output_tokens=usage.output,
                refused="" if asked else self._refused or "",
            )
        )


# Reports each model call as a span, by the conventions for generative AI. It contains no text of the call.
#: By API; only the operator knows which company runs the address.
_PROVIDERS: Final = {
    "responses": "openai",
    "chat_completions": "openai",
    "messages": "anthropic",
    "gemini": "gcp.gemini",
}
_OPERATIONS: Final = {"generate": "chat", "count": "count_tokens"}
_FAILED: Final = 400


def report_call(record: CallRecord, endpoint: Endpoint, begun: int) -> None:
    """Report a finished call that began at ``begun``, in nanoseconds since 1970, as a child of the open span."""
    outer = open_span()
    if outer is None:
        return
    operation, model = _OPERATIONS[endpoint.action], record.model or ""
    attributes: dict[str, AttributeValue] = {
        c.GEN_AI_OPERATION: operation,
        c.GEN_AI_PROVIDER: _PROVIDERS[endpoint.api],
        c.GEN_AI_REQUEST_MODEL: model,
        c.GEN_AI_INPUT_TOKENS: record.input_tokens,
        c.GEN_AI_OUTPUT_TOKENS: record.output_tokens,
        c.GEN_AI_CACHED_TOKENS: record.cached_tokens,
        c.HTTP_STATUS: record.status,
        c.PLAYED: record.played,
    }
    if record.model_used:
        attributes[c.GEN_AI_RESPONSE_MODEL] = record.model_used
    if record.cost_usd is not None:
        attributes[c.COST] = record.cost_usd
    error = record.refused or (str(record.status) if record.status >= _FAILED else "")
    outer.ended(f"{operation} {model}".strip(), begun, "client", attributes=attributes, error=error)
