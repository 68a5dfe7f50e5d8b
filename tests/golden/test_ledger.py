"""What commands print of a system that runs: its ledger, its queues and what waits for people."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from syrupy.assertion import SnapshotAssertion

from gatewright.contracts import ApprovalList, codec
from gatewright.resources import schema_directory
from tests.golden.conftest import RecordedHome
from tests.golden.recorded import RUN_IDS
from tests.golden.recorded_bus import recorded_bus

pytestmark = pytest.mark.every_case

EXAMPLE = schema_directory() / "examples" / "approval_list.v1" / "valid" / "full.json"
REQUEST = codec.decode(EXAMPLE.read_bytes(), ApprovalList).approvals[0].request.request_id
COMMANDS: dict[str, tuple[str, ...]] = {
    "runs": ("runs",),
    "runs-before": ("runs", "--limit", "2", "--before", RUN_IDS["fixed"]),
    "show-unknown": ("show", "run-unknown"),
    "status": ("status", RUN_IDS["landed"]),
    "context": ("context", RUN_IDS["landed"]),
    "replay-from-the-ledger": ("replay", RUN_IDS["landed"], "--from-ledger"),
    "approvals-list": ("approvals", "list"),
    "approvals-list-all": ("approvals", "list", "--all"),
    "approvals-show": ("approvals", "show", REQUEST),
    "approvals-show-unknown": ("approvals", "show", "approval-0"),
    "approvals-stats": ("approvals", "stats"),
    "approvals-grants": ("approvals", "grants"),
    "approvals-watch-once": ("approvals", "watch", "--once"),
    "review-status": ("review", "status", REQUEST),
    "dead-list": ("dead", "list"),
    "dead-show": ("dead", "show", "1"),
    "dead-show-unknown": ("dead", "show", "9"),
    "queue-list": ("queue", "list"),
    "merge-list": ("merge", "list"),
    "merge-show": ("merge", "show", "main"),
    "merge-show-of-several": ("merge", "show"),
    "merge-hold": ("merge", "hold", "main", "--reason", "release freeze"),
    "merge-hold-without-a-key": ("merge", "hold", "release"),
    "merge-move-unknown": ("merge", "move", "run-unknown"),
    "top-once": ("top", "--once"),
    "submit-of-no-file": ("submit", "request.json"),
}
#: What shows an age or a time of the fixture itself, which the clock of this machine decides; and how each is replaced. The
#: width of columns follows from them, so that spaces are joined there.
CLOCKED = (
    *("approvals-list", "approvals-list-all", "approvals-watch-once", "dead-list", "dead-show"),
    *("queue-list", "merge-show", "top-once"),
)
_CLOCK = (
    (re.compile(r"\b\d+ (s|min|h|d)\b"), "<age>"),
    (re.compile(r'"(age_sec|oldest_sec)": [\d.]+'), r'"\1": "<age>"'),
    (re.compile(r"(?<=\S) {2,}"), "  "),
)
#: The time of the dead letter.
_NOW = re.compile(r'"(at|since)": "[^"]+"')


@pytest.fixture(scope="module")
def nats_url(recorded_home: RecordedHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recorded_bus(tmp_path_factory.mktemp("nats"), recorded_home.runs.values()) as url:
        yield url


def asked(home: RecordedHome, url: str, *words: str) -> str:
    said = home.run(*words, GATEWRIGHT_NATS_URL=url) + home.run(*words, "--json", GATEWRIGHT_NATS_URL=url)
    return said.replace(url, "<bus>")


def without_times(command: str, said: str) -> str:
    """``said`` without what the clock of this machine decides."""
    for pattern, name in _CLOCK if command in CLOCKED else ():
        said = pattern.sub(name, said)
    return _NOW.sub(r'"\1": "<time>"', said) if command in ("dead-list", "dead-show", "top-once") else said


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_outputs_of_a_running_system(command: str, nats_url: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    assert without_times(command, asked(recorded_home, nats_url, *COMMANDS[command])) == text


@pytest.mark.parametrize("command", ["show", "watch"])
@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_outputs_of_a_run_in_the_ledger(
    name: str, command: str, nats_url: str, recorded_home: RecordedHome, text: SnapshotAssertion
) -> None:
    assert asked(recorded_home, nats_url, command, RUN_IDS[name]) == text


@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_every_event_of_a_run(name: str, nats_url: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    said = recorded_home.run("watch", RUN_IDS[name], "--verbose", GATEWRIGHT_NATS_URL=nats_url)
    assert said.replace(nats_url, "<bus>") == text
