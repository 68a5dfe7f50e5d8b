"""``gatewright ...`` in this process, for tests of what a command does: a process of its own takes longer to import."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gatewright.app.cli.app import app


@cache
def _table() -> Any:
    """The table of commands, which takes longer to build than most commands take."""
    return get_command(app)


def invoke(words: Sequence[str], stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    """A command line to its end. What no command foresaw is raised."""
    exit_code: Any = 0
    with CliRunner().isolation(stdin) as (out, err, _):
        try:
            _table().main(args=list(words), prog_name="gatewright")
        except SystemExit as end:
            exit_code = end.code
        output, beside = (stream.getvalue().decode().replace("\r\n", "\n") for stream in (out, err))
    return subprocess.CompletedProcess(words, exit_code, output, beside)


def invoke_in(
    cwd: Path, environment: Mapping[str, str], words: Sequence[str], stdin: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """A command line to its end, standing in ``cwd``, with ``environment`` and nothing else around it."""
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd):
        for name in set(os.environ) - set(environment):
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        return invoke(words, stdin)
