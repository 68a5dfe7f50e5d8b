"""The store of the tests as a process of its own, which can be stopped and continued by signals.

Run as a module it serves until its standard input is closed, and prints its endpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.evidence.store.s3_server import S3Server, serving

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class StoreProcess:
    """``endpoint`` is where it listens."""

    endpoint: str
    pid: int

    def stop(self) -> None:
        """From now on it takes connections and answers nothing: the kernel does the first, and nobody the second."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@contextlib.contextmanager
def store_process() -> Iterator[StoreProcess]:
    with subprocess.Popen(
        [sys.executable, "-m", __spec__.name if __spec__ else __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (_ROOT, _ROOT / "shared")))},
    ) as process:
        try:
            assert process.stdout is not None
            yield StoreProcess(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


if __name__ == "__main__":
    with serving(S3Server()) as server:
        print(server.endpoint, flush=True)  # noqa: T201 - who started it reads it
        sys.stdin.read()
