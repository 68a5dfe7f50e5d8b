"""Which files a command reads to decide what it runs: its script and its settings, and not what it only looks at."""

from __future__ import annotations

import shlex

import pytest

from gatewright.ecosystems.runner.commands import CommandReads


def files(command: str) -> set[str]:
    reading = CommandReads()
    reading.command(shlex.split(command))
    return reading.files


@pytest.mark.parametrize(
    "command",
    [
        "test -f src/a.py",
        "test -r src/a.py",
        "grep -r src/a.py",
        "grep -c src/a.py src/b.py",
        "grep -f src/a.py src/b.py",
        "python -m compileall -f src/a.py",
        "mypy -p src",
        "cargo test -p src",
        "python -m unittest discover -p src",
    ],
)
def test_what_a_command_only_looks_at_may_change_like_any_source(command: str) -> None:
    assert not files(command) & {"src/a.py", "src/b.py", "src.py", "src/__init__.py"}


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("python tools/check.py src/a.py", "tools/check.py"),
        ("tools/check.sh", "tools/check.sh"),
        ("pytest -c other.ini", "other.ini"),
        ("python -m pytest -p plugin", "plugin.py"),
        ("pytest -p plugin", "plugin.py"),
        ("mocha -r setup.js", "setup.js"),
        ("node --import=./setup.mjs --test", "setup.mjs"),
        ("make -f other.mk test", "other.mk"),
    ],
)
def test_script_and_settings_of_a_command_decide_what_it_runs(command: str, file: str) -> None:
    assert file in files(command)
