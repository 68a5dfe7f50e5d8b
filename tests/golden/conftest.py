"""A home folder and a bus that hold the recorded runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.command_line import invoke_in
from tests.evidence.recorded_runs import RecordedRun
from tests.golden.recorded import seal_all
from tests.golden.transcripts import PageSnapshot, TextSnapshot, transcript


class RecordedHome:
    """``folder`` is where commands stand; its home folder holds the sealed bundles of ``runs``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".gatewright"
        self.runs: dict[str, RecordedRun] = asyncio.run(seal_all(self.home))

    def run(self, *words: str, **environment: str) -> str:
        """The transcript of a command line."""
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LC_ALL", "GIT_CEILING_DIRECTORIES")}
        ended = invoke_in(self.folder, {**inherited, "COLUMNS": "100", "TERMINAL_WIDTH": "100", **environment}, words)
        return transcript(ended, self.folder)


@pytest.fixture(scope="session")
def recorded_home(tmp_path_factory: pytest.TempPathFactory) -> RecordedHome:
    return RecordedHome(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """What is printed, kept as text."""
    return snapshot.use_extension(TextSnapshot)


@pytest.fixture
def html(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """What a browser is sent, kept as HTML."""
    return snapshot.use_extension(PageSnapshot)
