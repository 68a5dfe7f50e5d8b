"""Spans reach a collector in its own protocol; one that is away, or hangs, keeps nobody waiting."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from gatewright.errors import ConfigurationError
from gatewright.telemetry.otlp import OtlpSpans
from gatewright.telemetry.traces import open_sink
from gatewright.tracing.conventions import SCHEMA_URL
from gatewright.tracing.spans import FinishedSpan, NoSpans, TraceContext
from tests.telemetry.collector import Collector

SPAN = FinishedSpan("run x", TraceContext("ab" * 16, "cd" * 8), "ef" * 8, 1_000, 2_000, "server", {"n": 3}, "path_out_of_scope")
WITHOUT_THE_EXTRA = """
import sys
sys.modules["opentelemetry.sdk"] = None
from gatewright.errors import ConfigurationError
from gatewright.telemetry.traces import open_sink
try:
    open_sink("otlp", "worker")
except ConfigurationError as error:
    print(error.message)
"""


def test_a_span_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        sink = open_sink("otlp", "worker")
        sink.take(SPAN)
        sink.close()
        (got,) = collector.spans
    assert (got.service, got.schema, got.name, got.kind) == ("gatewright-worker", SCHEMA_URL, "run x", "server")
    assert (got.trace_id, got.span_id, got.parent, got.start, got.end) == ("ab" * 16, "cd" * 8, "ef" * 8, 1_000, 2_000)
    assert (got.attributes["n"], got.error) == (3, "path_out_of_scope")


def test_a_collector_that_never_answers_holds_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        sink = OtlpSpans("worker", "1")
        sink.take(SPAN)
        sink.close()  # it gives up; the library itself would try again and again
        asked, _ = deaf.accept()
        with asked:
            assert asked.recv(4) == b"POST"


def test_none_is_the_default_and_costs_nothing() -> None:
    assert isinstance(open_sink("none", "worker"), NoSpans)
    loaded = "import sys, gatewright.service.tasks; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    ended = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "[]"


def test_without_the_extra_the_error_names_what_to_install() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA], check=True, capture_output=True, text=True)
    assert "pip install '/path/to/gatewright[traces]'" in ended.stdout


def test_settings_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with pytest.raises(ConfigurationError, match="OTEL_"):
        open_sink("otlp", "worker")
