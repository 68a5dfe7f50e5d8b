"""A command at a terminal: what it shows, and what a person types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.waiting import PATIENCE


class Terminal:
    """``gatewright`` with these words, at a terminal of its own."""

    def __init__(self, stack: Stack, project: Path, *words: str) -> None:
        argv = [sys.executable, "-m", "gatewright.app.cli.main", *words]
        self._ours, theirs = pty.openpty()
        environment = stack.environment | {"TERM": "xterm", "COLUMNS": "200"}
        self.process = subprocess.Popen(argv, cwd=project, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.shown = ""

    def read_until(self, words: str | None) -> None:
        """Until ``words`` are shown, or to the end."""
        deadline = time.monotonic() + PATIENCE
        while words is None or words not in self.shown:
            if time.monotonic() > deadline:
                pytest.fail(self.shown)
            if not select.select([self._ours], [], [], 1.0)[0]:
                continue
            try:
                data = os.read(self._ours, 65536)
            except OSError:
                data = b""
            if not data:
                assert words is None, self.shown
                return
            self.shown += data.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        self.read_until(None)
        os.close(self._ours)
        return self.process.wait(PATIENCE)
