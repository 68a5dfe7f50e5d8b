"""Forwarding of a provider's reply to the client: in pieces or complete, counted before it is sent, without the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from gatewright.errors import DeniedError, MalformedError, UnavailableError
from gatewright.models.apis.endings import ending_in, ending_of, later_ending
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.apis.error_answers import error_body
from gatewright.models.apis.event_stream import EventReader
from gatewright.models.apis.usage import greatest, is_end, reply_bytes, usage_of, written_bytes
from gatewright.models.gateway.client_reply import ClientReply
from gatewright.models.gateway.reading import GatewayLimits, parse_body
from gatewright.models.gateway.spending import CallMeter
from gatewright.models.gateway.upstream import UpstreamReply
from gatewright.models.prices import TokenUsage

STREAM_TYPE = "text/event-stream"
_JSON = "application/json"
#: Bytes of an error of a provider that are passed on.
_ERROR_BYTES = 1 << 16
_OK = 300


class BrokenReplyError(UnavailableError):
    """A provider's reply was interrupted or malformed. It is retried as long as nothing of it was passed on."""

    code = "model_reply_invalid"


class Relay:
    """One reply to one call. ``meter`` is None if nothing is counted; ``ending`` is why the reply ended, once it has."""

    def __init__(
        self, endpoint: Endpoint, reply: UpstreamReply, client: ClientReply, meter: CallMeter | None, limits: GatewayLimits
    ) -> None:
        self._endpoint = endpoint
        self._reply = reply
        self._client = client
        self._meter = meter
        self._limits = limits
        self.ending: str | None = None
        self._usage: TokenUsage | None = None
        self._ended = False

    async def pass_on(self) -> None:
        """Raises BudgetError, DeniedError (``model_reply_too_large``), BrokenReplyError, UnavailableError for a slow client."""
        try:
            if self._reply.status >= _OK:
                await self._error()
            elif self._reply.content_type == STREAM_TYPE:
                await self._stream()
            else:
                await self._one_piece()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BrokenReplyError(f"the reply broke off ({type(error).__name__})", code="model_reply_invalid") from None

    async def _stream(self) -> None:
        reader, scrubber = EventReader(), self._reply.scrubber
        size = 0
        async for raw in self._reply.content.iter_any():
            size += len(raw)
            self._check_size(size)
            for event in reader.feed(raw):
                self._count_event(event)
            if self._meter is not None:
                self._meter.count_streamed(len(raw), 0, None)
            await self._client.write(scrubber.feed(raw), STREAM_TYPE)
        for event in reader.finish():
            self._count_event(event)
        if size == 0:
            raise BrokenReplyError("the reply is empty", code="model_reply_invalid")
        await self._client.write(scrubber.finish(), STREAM_TYPE)
        self._client.whole = self._ended
        if self._meter is not None:
            self._meter.settle()

    def _count_event(self, event: Mapping[str, Any]) -> None:
        """Count one event. One at a time: what a provider sends in one go may be more than there is left."""
        api = self._endpoint.api
        self._ended = self._ended or is_end(api, event)
        self.ending = later_ending(api, self.ending, ending_in(api, event))
        if self._meter is not None:
            self._usage = greatest(self._usage, usage_of(api, event))
            self._meter.count_streamed(0, written_bytes(api, event), self._usage)

    async def _one_piece(self) -> None:
        parts, size = [], 0
        async for raw in self._reply.content.iter_any():
            size += len(raw)
            self._check_size(size)
            if self._meter is not None:
                self._meter.count_streamed(len(raw), 0, None)
            parts.append(raw)
        data = b"".join(parts)
        try:
            reply = await parse_body(data)
        except MalformedError:
            reply = None
        if not isinstance(reply, dict):
            raise BrokenReplyError("the provider's reply is no JSON object", code="model_reply_invalid")
        self.ending = ending_of(self._endpoint.api, reply)
        if self._meter is not None:
            self._meter.count_streamed(0, reply_bytes(self._endpoint.api, reply), usage_of(self._endpoint.api, reply))
            self._meter.settle()
        await self._client.write(self._reply.scrubber.whole(data), _JSON)
        self._client.whole = True

    async def _error(self) -> None:
        """Pass on the provider's error message about the request, if it is JSON."""
        data, status = b"", self._reply.status
        async for raw in self._reply.content.iter_any():
            data += raw
            if len(data) > _ERROR_BYTES:
                break
        try:
            words = None if len(data) > _ERROR_BYTES else await parse_body(data)
        except MalformedError:
            words = None
        if not isinstance(words, dict):
            data = error_body(self._endpoint.api, status, "model_request_invalid", f"the provider answered {status}")
        await self._client.write(self._reply.scrubber.whole(data), _JSON, status=status)
        self._client.whole = True

    def _check_size(self, size: int) -> None:
        if size > self._limits.reply_bytes:
            raise DeniedError(f"a reply has at most {self._limits.reply_bytes} bytes", code="model_reply_too_large")
