"""The live page of a real stack: `gatewright console` in a process of its own, as people start it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.e2e.stack import SECONDS, Stack, wait_until
from tests.processes import killed_on_failure


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/sign-in"):
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def live_page(
    stack: Stack, port: int, *options: str, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Served on loopback for the time of a block; ``extra``: more variables."""
    log = Path(stack.home) / "logs" / f"console-{port}.log"
    argv = [sys.executable, "-P", "-m", "gatewright.app.cli.main", "console", "--http", f"127.0.0.1:{port}", *options]
    surroundings = {**stack.environment, **(extra or {})}
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, cwd=stack.home.parent, env=surroundings, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    with killed_on_failure(process):
        wait_until(lambda: process.poll() is not None or _answers(port), SECONDS)
        assert process.poll() is None, log.read_text()
        yield process
        process.terminate()
        process.wait(SECONDS)
