"""Processes that tests start: none of them outlives a test that fails."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def killed_on_failure(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    """``Popen`` as a context waits for its process for ever; what goes wrong in the body would be a hang."""
    try:
        yield
    except BaseException:
        process.kill()
        raise
