"""Spans: an operation, its times, and its parent. Without a sink nothing is kept, at no cost.

The W3C trace context is sent with each message in ``traceparent``. The spans of a run itself are derived from its ledger
(``view/spans.py``), ids included; those of a role's own work are made here while it works. Everything that is called or
started within the open span can access it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from gatewright.tracing.conventions import ERROR_TYPE

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
AttributeValue = str | int | float | bool

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\Z")  # noqa: TID251 - linear: of a fixed length
#: Characters of one value; what a stranger wrote may be in it.
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of a trace: 32 and 16 hexadecimal digits, neither all zeros."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> str:
        """Return the W3C header. Every run is sampled: the collector decides which traces to keep, after it has seen their
        end."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def read_traceparent(text: str) -> TraceContext | None:
    """Return the context of a W3C ``traceparent``; None if malformed."""
    found = _TRACEPARENT.match(text)
    if found is None or found[1] == "ff" or not found[2].strip("0") or not found[3].strip("0"):
        return None
    return TraceContext(found[2], found[3])


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """A span from ``start`` to ``end``, in nanoseconds since 1970. ``parent`` is a span id, empty for the first of its trace.

    ``error`` is a stable reason code, empty for what went well.
    """

    name: str
    context: TraceContext
    parent: str
    start: int
    end: int
    kind: SpanKind = "internal"
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    error: str = ""


class SpanSink(Protocol):
    """The destination of finished spans. Never waits, and never raises."""

    def take(self, span: FinishedSpan) -> None:
        """Have one sent, some time."""

    def close(self) -> None:
        """Send what is left, within a bounded time."""


class NoSpans:
    """The sink of a process without traces."""

    def take(self, span: FinishedSpan) -> None:
        del span

    def close(self) -> None:
        return None


@dataclass(slots=True)
class OpenSpan:
    """An operation in progress. ``error`` and ``attributes`` may be set until it ends."""

    context: TraceContext
    sink: SpanSink
    attributes: dict[str, AttributeValue]
    error: str = ""

    def ended(
        self, name: str, start: int, kind: SpanKind = "internal", *, attributes: Mapping[str, AttributeValue], error: str = ""
    ) -> None:
        """A part of this that is over by now, and began at ``start``."""
        context = TraceContext(self.context.trace_id, new_span_id())
        finish(self.sink, FinishedSpan(name, context, self.context.span_id, start, time.time_ns(), kind, attributes, error))


_open: ContextVar[OpenSpan | None] = ContextVar("open_span", default=None)


def open_span() -> OpenSpan | None:
    """Return the caller's open span; None without tracing."""
    return _open.get()


def new_span_id() -> str:
    """16 hexadecimal digits, drawn."""
    return os.urandom(8).hex()


@contextmanager
def span(
    sink: SpanSink, parent: TraceContext | None, name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue]
) -> Iterator[OpenSpan | None]:
    """A part of ``parent`` that came in a message; without one there is no trace, and no span."""
    if parent is None or isinstance(sink, NoSpans):
        yield None
        return
    opened = OpenSpan(TraceContext(parent.trace_id, new_span_id()), sink, dict(attributes))
    before, start = _open.set(opened), time.time_ns()
    try:
        yield opened
    except BaseException as error:
        opened.error = opened.error or str(getattr(error, "reason", type(error).__name__))
        raise
    finally:
        _open.reset(before)
        whole = FinishedSpan(name, opened.context, parent.span_id, start, time.time_ns(), kind, opened.attributes, opened.error)
        finish(sink, whole)


@contextmanager
def child(name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Iterator[OpenSpan | None]:
    """Open a child of the open span; without an open span, yield None."""
    outer = _open.get()
    if outer is None:
        yield None
        return
    with span(outer.sink, outer.context, name, kind, attributes) as opened:
        yield opened


def finish(sink: SpanSink, finished: FinishedSpan) -> None:
    """Pass a span to the sink, with its error as an attribute, and with its values cut to the limit."""
    attributes = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in finished.attributes.items()}
    if finished.error:
        attributes[ERROR_TYPE] = finished.error[:_LONGEST]
    end = max(finished.start, finished.end)
    sink.take(replace(finished, name=finished.name[:_LONGEST], end=end, attributes=attributes))
