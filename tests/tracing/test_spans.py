"""Spans know what they are a part of, tell how they failed, and cost nothing where nobody wants them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gatewright.errors import DeniedError
from gatewright.tracing.spans import FinishedSpan, NoSpans, TraceContext, child, open_span, read_traceparent, span

PARENT = TraceContext("ab" * 16, "cd" * 8)


@dataclass
class Kept:
    spans: list[FinishedSpan] = field(default_factory=list)

    def take(self, span: FinishedSpan) -> None:
        self.spans.append(span)

    def close(self) -> None:
        """Nothing is left."""


def test_a_nested_span_names_its_parent_across_tasks() -> None:
    kept = Kept()

    async def inner() -> None:
        with child("inner", "client", {"n": 1}):
            await asyncio.sleep(0)

    async def outer() -> None:
        with span(kept, PARENT, "outer", "consumer", {}):
            await asyncio.create_task(inner())

    asyncio.run(outer())
    inside, outside = kept.spans
    assert (outside.parent, outside.context.trace_id) == (PARENT.span_id, PARENT.trace_id)
    assert (inside.parent, inside.context.trace_id) == (outside.context.span_id, PARENT.trace_id)
    assert outside.start <= inside.start <= inside.end <= outside.end
    assert open_span() is None


def test_an_exception_is_recorded_by_its_code_and_propagates() -> None:
    kept = Kept()
    with pytest.raises(DeniedError), span(kept, PARENT, "work", "internal", {}):
        raise DeniedError("no", code="command_not_allowed")
    assert (kept.spans[0].error, kept.spans[0].attributes["error.type"]) == ("command_not_allowed", "command_not_allowed")


def test_without_a_sink_or_a_trace_nothing_is_opened() -> None:
    with span(NoSpans(), PARENT, "work", "internal", {}) as opened, child("more", "internal", {}) as inner:
        assert (opened, inner) == (None, None)
    with span(Kept(), None, "work", "internal", {}) as opened:
        assert opened is None


def test_a_value_that_a_stranger_chose_is_cut() -> None:
    kept = Kept()
    with span(kept, PARENT, "n" * 9000, "internal", {"model": "m" * 9000}):
        pass
    assert (len(kept.spans[0].name), len(str(kept.spans[0].attributes["model"]))) == (500, 500)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (PARENT.traceparent, PARENT),
        (f"00-{'ab' * 16}-{'cd' * 8}-00", PARENT),
        (f"cc-{'ab' * 16}-{'cd' * 8}-01", PARENT),
        (f"ff-{'ab' * 16}-{'cd' * 8}-01", None),
        (f"00-{'00' * 16}-{'cd' * 8}-01", None),
        (f"00-{'ab' * 16}-{'00' * 8}-01", None),
        (f"00-{'AB' * 16}-{'cd' * 8}-01", None),
        (f"00-{'ab' * 16}-{'cd' * 8}-01\n", None),
        ("", None),
        ("x" * 100_000, None),
    ],
)
def test_a_traceparent_is_read_according_to_w3c(text: str, read: TraceContext | None) -> None:
    assert read_traceparent(text) == read
