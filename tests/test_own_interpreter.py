"""A Python that starts with LD_LIBRARY_PATH only: our own processes start, and doctor reports what commands will meet."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.app.cli.diagnosis import UnfitError, check_python
from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import usable_python
from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.git.access.credentials import HelperAnswer, ResolvedAccess


@pytest.fixture
def demanding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter that the loader cannot start without the variable, as one with a shared libpython below /opt."""
    program = tmp_path / "python3.99"
    library = tmp_path / "lib"
    program.write_text(
        f'#!/bin/sh\n[ "$LD_LIBRARY_PATH" = {library} ] || {{ echo "libpython3.99.so: cannot open" >&2; exit 127; }}\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    return program


async def test_a_judgement_is_made_by_a_python_that_needs_its_library_path(demanding: Path) -> None:
    judge = BoundedJudge("tests.bounded.questions:shout", ProcessBounds(seconds=60.0))
    assert await judge.ask(b"words") == b"WORDS"


def test_credentials_are_handed_over_by_a_python_that_needs_its_library_path(demanding: Path) -> None:
    access = ResolvedAccess({}, {}, (HelperAnswer("https", "h", "p", "name", "secret"),))
    with access.opened() as (settings, descriptors):
        helper = settings["credential.helper"].removeprefix("!")
        asked = b"protocol=https\nhost=h\npath=p\n\n"
        done = subprocess.run(
            ("/bin/sh", "-c", f"{helper} get"),
            check=False,
            input=asked,
            env={"PATH": "/usr/bin:/bin"},
            pass_fds=descriptors,
            capture_output=True,
        )
    assert b"password=secret" in done.stdout, done.stderr


def test_doctor_names_a_python_that_commands_cannot_start(demanding: Path) -> None:
    with pytest.raises(UnfitError, match=r"LD_LIBRARY_PATH.*cannot open"):
        check_python()


def test_doctor_is_content_with_a_python_that_needs_nothing() -> None:
    assert check_python().startswith("Python 3.")


def test_an_environment_is_never_made_with_a_python_that_commands_cannot_start(demanding: Path) -> None:
    with pytest.raises(NotPreparedError, match="this host has none"):
        usable_python("", "")
