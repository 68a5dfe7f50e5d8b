"""The help of every command."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.core import TyperGroup
from typer.main import get_command

from gatewright.app.cli.app import app
from tests.golden.conftest import RecordedHome

pytestmark = pytest.mark.every_case

ROOT = get_command(app)
assert isinstance(ROOT, TyperGroup)


def lines_below(name: str) -> list[list[str]]:
    """The command lines that ask for the help of ``name`` and of its commands."""
    assert isinstance(ROOT, TyperGroup)
    command = ROOT.commands[name]
    below = command.commands if isinstance(command, TyperGroup) else {}
    return [[name, "--help"], *([name, each, "--help"] for each in below)]


def test_help_of_the_program(recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    assert recorded_home.run("--help") == text


@pytest.mark.parametrize("name", sorted(ROOT.commands))
def test_help_of_each_command(name: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    assert "\n".join(recorded_home.run(*words) for words in lines_below(name)) == text
