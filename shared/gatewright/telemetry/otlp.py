"""Export of spans to a collector by OTLP over HTTP, with OpenTelemetry's own library. Its settings are the standard variables.

The library reads ``OTEL_EXPORTER_OTLP_ENDPOINT`` and related variables, ``OTEL_BSP_*`` and ``OTEL_RESOURCE_ATTRIBUTES``. A
separate thread batches and sends spans; spans that a collector does not accept in time are dropped, with a log line.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace.span import TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from gatewright.tracing import conventions as c
from gatewright.tracing.spans import FinishedSpan, SpanKind, TraceContext

_KINDS: Final[dict[SpanKind, OtelKind]] = {
    "internal": OtelKind.INTERNAL,
    "server": OtelKind.SERVER,
    "client": OtelKind.CLIENT,
    "producer": OtelKind.PRODUCER,
    "consumer": OtelKind.CONSUMER,
}
#: Seconds to send the remaining spans when the process ends.
_CLOSE_SECONDS: Final = 2.0
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class OtlpSpans:
    """A ``SpanSink``. Not to be opened before a fork: it has a thread. ``exporter``: what sends them, for tests."""

    def __init__(self, role: str, version: str, exporter: SpanExporter | None = None) -> None:
        instance = f"{role}@{socket.gethostname()}:{os.getpid()}"
        self._resource = Resource.create(
            {
                c.SERVICE_NAME: f"gatewright-{role}",
                c.SERVICE_NAMESPACE: "gatewright",
                c.SERVICE_VERSION: version,
                c.SERVICE_INSTANCE: instance,
            }
        )
        self._scope = InstrumentationScope("gatewright", version, c.SCHEMA_URL)
        self._processor = BatchSpanProcessor(exporter or OTLPSpanExporter())

    def take(self, span: FinishedSpan) -> None:
        """See ``SpanSink.take``."""
        self._processor.on_end(
            ReadableSpan(
                span.name,
                context=_context(span.context, remote=False),
                parent=_context(TraceContext(span.context.trace_id, span.parent), remote=True) if span.parent else None,
                resource=self._resource,
                attributes=span.attributes,
                kind=_KINDS[span.kind],
                status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
                start_time=span.start,
                end_time=span.end,
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """See ``SpanSink.close``. The library may wait for a collector for half a minute; the process does not."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def _context(of: TraceContext, *, remote: bool) -> SpanContext:
    return SpanContext(int(of.trace_id, 16), int(of.span_id, 16), is_remote=remote, trace_flags=_SAMPLED)
