"""A receiver of OTLP over HTTP that keeps what it is sent, read with the protocol's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.waiting import wait_until

_KINDS = {
    Span.SPAN_KIND_INTERNAL: "internal",
    Span.SPAN_KIND_SERVER: "server",
    Span.SPAN_KIND_CLIENT: "client",
    Span.SPAN_KIND_PRODUCER: "producer",
    Span.SPAN_KIND_CONSUMER: "consumer",
}


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    schema: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, object]
    error: str


class Collector:
    """Listens on a free port while it is open."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[ReceivedSpan]:
        found: list[ReceivedSpan] = []
        for body in tuple(self.bodies):
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                service = str(_plain(resource.resource.attributes)["service.name"])
                for scope in resource.scope_spans:
                    found.extend(_received(service, scope.schema_url, each) for each in scope.spans)
        return found

    def whole(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of a trace, once its first one is there and all that is named as a parent."""

        def complete() -> bool:
            spans = self.of(trace_id)
            known = {span.span_id for span in spans}
            roots = [span for span in spans if span.parent not in known]
            return any(span.name.startswith("run ") for span in spans) and len(roots) == 1

        assert wait_until(complete)
        return self.of(trace_id)

    def of(self, trace_id: str) -> list[ReceivedSpan]:
        return sorted((span for span in self.spans if span.trace_id == trace_id), key=lambda span: span.start)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        bodies = self.bodies

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                """The tests' own output is enough."""

        return Receiver


def _received(service: str, schema: str, span: Span) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        schema=schema,
        name=span.name,
        kind=_KINDS[span.kind],
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_plain(span.attributes),
        error=span.status.message,
    )


def _plain(attributes: Iterable[KeyValue]) -> dict[str, object]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in attributes}
