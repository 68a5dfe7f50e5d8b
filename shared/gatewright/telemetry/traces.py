"""The destination of a process's spans, by its operator's settings."""

from __future__ import annotations

from typing import Literal

from gatewright.errors import ConfigurationError
from gatewright.tracing.spans import NoSpans, SpanSink
from gatewright.version import __version__

Traces = Literal["none", "otlp"]


def open_sink(traces: Traces, role: str) -> SpanSink:
    """Raises ConfigurationError when what sends them is not installed, or cannot use its settings."""
    if traces == "none":
        return NoSpans()
    try:
        # Imported late: an extra, whose modules take longer to load than all of ours.
        from gatewright.telemetry.otlp import OtlpSpans
    except ImportError:
        raise ConfigurationError("GATEWRIGHT_TRACES=otlp needs an extra: pip install '/path/to/gatewright[traces]'") from None
    try:
        return OtlpSpans(role, __version__)
    except (ValueError, OSError) as error:
        raise ConfigurationError(f"traces cannot be sent with the settings of the OTEL_ variables: {error}") from error
