"""Structured logs: one JSON object a line on standard error, secrets redacted.

A logger is made once per process and passed on; ``log.bind(run_id=...)`` adds ids. Logs are for operators and are no evidence:
a line that cannot be written is lost rather than stopping the work.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO, Literal, cast

import msgspec

from gatewright.clock import Clock, SystemClock, timestamp
from gatewright.telemetry.redaction import redact

# structlog loads rich for a renderer that is not used here: 60 ms of the start of each of seven processes.
_HIDE_RICH = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]  # None is how the import system spells "not to be had"
import structlog  # noqa: E402
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger  # noqa: E402

if _HIDE_RICH:
    del sys.modules["rich"]

Logger = FilteringBoundLogger
LogLevel = Literal["debug", "info", "warning", "error"]
#: ``json`` for machines, ``text`` for a person at a terminal.
LogStyle = Literal["json", "text"]
_LEVELS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class _Lines:
    """Writes whole lines to a stream, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def msg(self, line: bytes) -> None:
        # A full disk or a reader that went away must not end a task.
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(line + b"\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def make_logger(
    stream: BinaryIO | None = None, *, level: LogLevel = "info", style: LogStyle = "json", clock: Clock | None = None
) -> Logger:
    """A logger that writes lines of ``style`` to ``stream`` (standard error when None), from ``level`` upwards."""
    moment = clock or SystemClock()

    def stamp(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        fixed = {"ts": timestamp(moment.now()), "level": "error" if method == "exception" else method, "event": event["event"]}
        return {**fixed, **event, **fixed}  # first in the line, and not to be overwritten

    logger = structlog.wrap_logger(
        _Lines(stream or sys.stderr.buffer),
        processors=[stamp, structlog.processors.format_exc_info, _redact_event, _as_text if style == "text" else _as_json],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        context_class=dict,
    )
    return cast("Logger", logger.bind())


def route_foreign_output(log: Logger) -> None:
    """Send what libraries log or warn, and exceptions that were not caught, through ``log``: then it is redacted too.

    It changes the whole process; for its start only.
    """

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("uncaught_exception", exc_info=(kind, error, trace))

    sys.excepthook = uncaught
    logging.captureWarnings(capture=True)
    root = logging.getLogger()
    root.handlers[:] = [_Forward(log)]
    root.setLevel(logging.WARNING)


class _Forward(logging.Handler):
    def __init__(self, log: Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            text = str(record.msg)
        self._log.log(record.levelno, "library_message", logger=record.name, message=text, exc_info=record.exc_info)


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return cast("EventDict", redact(event))


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return msgspec.json.encode(event)


def _as_text(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    """``12:00:00.000 INFO    worker task_started run_id=...``; control characters escaped, so that no log drives a terminal."""
    moment, level, name = event.pop("ts"), event.pop("level"), event.pop("event", "")
    role, trace = event.pop("role", "-"), event.pop("exception", "")
    words = " ".join(
        f"{key}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}" for key, value in event.items()
    )
    head = f"{moment[11:23]} {level.upper():7} {role} {name} {words}".rstrip()
    lines = [head, *(f"    {line}" for line in trace.splitlines())]
    return "\n".join(_printable(line) for line in lines).encode()


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
