"""What a log line looks like, and what it never shows."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gatewright.telemetry.logs import Logger, LogStyle, make_logger


class StandingClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class FullDisk(io.BytesIO):
    tried = 0

    def write(self, _data: Any) -> int:
        self.tried += 1
        raise OSError(28, "no space left on device")


def written(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def make_log(style: LogStyle = "json") -> tuple[Logger, io.BytesIO]:
    stream = io.BytesIO()
    return make_logger(stream, style=style, clock=StandingClock()).bind(role="worker"), stream


def test_line_is_one_json_object_with_time_level_event_and_bound_ids() -> None:
    log, stream = make_log()
    log.bind(run_id="run-1", task_id="task-1", attempt=2).info("task_started", count=3)
    assert stream.getvalue().startswith(b'{"ts":"2026-01-02T03:04:05.000Z","level":"info","event":"task_started",')
    (line,) = written(stream)
    assert line["role"] == "worker"
    assert (line["run_id"], line["task_id"], line["attempt"], line["count"]) == ("run-1", "task-1", 2, 3)


def test_level_below_the_threshold_is_not_written() -> None:
    stream = io.BytesIO()
    make_logger(stream, level="warning").info("quiet")
    assert stream.getvalue() == b""


def test_line_break_in_a_value_cannot_forge_a_line() -> None:
    log, stream = make_log()
    log.info("task_started", task_id='x"}\n{"event":"forged"}')
    assert len(stream.getvalue().splitlines()) == 1


def test_time_and_level_cannot_be_overwritten_by_a_value() -> None:
    log, stream = make_log()
    log.error("bad", ts="never", level="debug")
    (line,) = written(stream)
    assert (line["ts"], line["level"]) == ("2026-01-02T03:04:05.000Z", "error")


def test_secret_in_an_exception_text_is_redacted() -> None:
    log, stream = make_log()
    try:
        int("https://me:hunter2@host/")
    except ValueError:
        log.exception("failed")
    (line,) = written(stream)
    assert "hunter2" not in stream.getvalue().decode()
    assert "ValueError: invalid literal for int() with base 10: 'https://[redacted:url_credentials]@host/'" in line["exception"]


def test_secret_in_the_cause_of_an_exception_is_redacted() -> None:
    log, stream = make_log()
    error = ValueError("outer")
    error.__cause__ = OSError("password=hunter2")
    log.error("failed", exc_info=error)
    assert b"OSError: password=" in stream.getvalue()
    assert "hunter2" not in stream.getvalue().decode()


def test_full_disk_does_not_end_the_work() -> None:
    disk = FullDisk()
    make_logger(disk).error("lost")
    assert disk.tried


def test_text_style_cannot_drive_a_terminal() -> None:
    log, stream = make_log("text")
    log.info("task_started", summary="\x1b[2J\x1b]0;owned\x07\u202enoitcerid", n=1)
    line = stream.getvalue().decode()
    assert line.startswith("03:04:05.000 INFO    worker task_started summary=\\x1b[2J")
    assert not set("\x1b\x07\u202e") & set(line)
    assert line.endswith("n=1\n")


def test_messages_of_libraries_and_uncaught_exceptions_are_redacted_lines_too() -> None:
    program = """
import logging, warnings
from gatewright.telemetry.logs import make_logger, route_foreign_output
route_foreign_output(make_logger().bind(role="worker"))
logging.getLogger("nats").warning("lost %s", "nats://u:hunter2@h")
logging.getLogger("nats").warning("wrong arguments %s %s", "one")
warnings.warn("password=hunter2")
raise RuntimeError("token=hunter2")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    lines = [msgspec.json.decode(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert b"hunter2" not in done.stderr
    assert [line["event"] for line in lines] == ["library_message"] * 3 + ["uncaught_exception"]
    assert [line.get("logger") for line in lines] == ["nats", "nats", "py.warnings", None]


def test_making_a_logger_changes_nothing_global() -> None:
    before = (sys.excepthook, logging.getLogger().handlers[:])
    make_logger(io.BytesIO())
    assert (sys.excepthook, logging.getLogger().handlers[:]) == before


@pytest.mark.parametrize("loaded_before", [False, True])
def test_rich_can_be_imported_after_and_before_the_logger(loaded_before: bool) -> None:
    first = "import rich; " if loaded_before else ""
    program = f"{first}import gatewright.telemetry.logs, rich.console; rich.console.Console"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
