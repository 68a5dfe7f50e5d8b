"""What is reported of a stack that ended before it was ready: its own error with its own code."""

from __future__ import annotations

from pathlib import Path

from gatewright.app.stack.lingering_start import start_error

LOG = Path("/h/logs/stack.log")
CAUSE = "worker-1 died 3 times at once (exit code 2): a key is listed twice; its log: /h/logs/worker-1.log"
DIED = f"error: {CAUSE} [role_keeps_dying]\n"


def test_the_error_of_the_stack_is_reported_once_with_its_code() -> None:
    error = start_error("warning: x\n" + DIED, LOG)
    assert error.reason == "role_keeps_dying"
    assert error.message.startswith("the stack did not start: worker-1 died 3 times at once")
    assert "error: " not in error.message
    assert "[" not in error.message


def test_an_error_of_several_lines_is_whole() -> None:
    error = start_error("error: worker-1 died; its log ends:\n  error: x\n  line 2 [role_keeps_dying]\n", LOG)
    assert (error.reason, error.message.splitlines()[-1]) == ("role_keeps_dying", "  line 2")


def test_a_stack_without_an_error_shows_its_last_log_lines() -> None:
    error = start_error("Traceback\nKeyError: [x]\n", LOG)
    assert (error.reason, error.message) == ("not_ready", f"the stack did not start; {LOG} ends:\nTraceback\nKeyError: [x]")
