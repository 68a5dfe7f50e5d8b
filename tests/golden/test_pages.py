"""The pages of the console, of a ledger that holds the recorded runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from syrupy.assertion import SnapshotAssertion

from gatewright.clock import SystemClock
from tests.console.conftest import ServedConsole
from tests.console.merge_queues import full_queue, held_queue, serve_queues
from tests.console.test_pages import ask
from tests.golden.conftest import RecordedHome
from tests.golden.recorded import RUN_IDS
from tests.golden.transcripts import page

pytestmark = pytest.mark.every_case

PATHS = {
    "board": "/",
    "board-of-failed-runs": "/?stage=failed",
    "needs": "/needs",
    "policies": "/policies",
    "repositories": "/repositories",
    "merge-queues": "/merge",
    "repository": "/repository?url=/srv/project",
    "agents": "/agents",
    "system": "/system",
    "sign-in": "/sign-in",
    "submit": "/submit",
    "unknown-run": "/runs/run-00000000000000000000",
    "unknown-request": "/requests/run-00000000000000000000.ask.1",
    "unknown-page": "/nothing",
}
PARTS = {"run": "", "files": "/files", "file": "/files/1"}
#: Tokens against forged forms.
_TOKENS = re.compile(r'(name="(?:token|csrf)" value=")[^"]+')


class FixedClock(SystemClock):
    """The day after the runs."""

    def now(self) -> datetime:
        return datetime(2026, 1, 3, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def console(recorded_home: RecordedHome) -> Iterator[ServedConsole]:
    """A console whose home is that of the runs."""
    console = ServedConsole(recorded_home.home, clock=FixedClock())
    console.open()
    for run in recorded_home.runs.values():
        console.write(run.transitions)
    serve_queues(console, (full_queue("Reject <b>negative</b> prices"), held_queue()))
    yield console
    console.close()


def shown(console: ServedConsole, path: str, home: RecordedHome) -> str:
    answer = ask(console, path)
    kind = answer.headers.get("content-type", "")
    return f"<!-- GET {path}: {answer.status} {kind} -->\n" + page(_TOKENS.sub(r"\1<token>", answer.text), home.folder)


@pytest.mark.parametrize("name", sorted(PATHS))
def test_page_of_all_runs(name: str, console: ServedConsole, recorded_home: RecordedHome, html: SnapshotAssertion) -> None:
    assert shown(console, PATHS[name], recorded_home) == html


@pytest.mark.parametrize("part", sorted(PARTS))
@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_page_of_a_run(
    name: str, part: str, console: ServedConsole, recorded_home: RecordedHome, html: SnapshotAssertion
) -> None:
    assert shown(console, f"/runs/{RUN_IDS[name]}{PARTS[part]}", recorded_home) == html
