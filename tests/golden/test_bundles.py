"""What commands print of sealed bundles, without a bus."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.golden.conftest import RecordedHome
from tests.golden.recorded import RUN_IDS
from tests.golden.transcripts import page

pytestmark = pytest.mark.every_case

KINDS = (
    *("brief", "done", "blocked", "decisions", "trail", "provenance", "progress", "memory"),
    *("role_contract_summary", "role_binding_summary", "role_binding_read_model", "workflow_case_read_model"),
)
#: One command line each; RUN is the id of the run. What is printed as text and as JSON stands in one file.
COMMANDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "RUN"),
    "packet": ("show", "RUN", "--packet"),
    "log": ("show", "RUN", "--log"),
    "verify": ("verify", "RUN"),
    "replay": ("replay", "RUN"),
    **{kind: ("show", "RUN", "--as", kind) for kind in KINDS},
}
#: What concerns all runs, or none.
OTHERS: dict[str, tuple[str, ...]] = {
    "runs": ("runs",),
    "runs-limit": ("runs", "--limit", "2"),
    "runs-before": ("runs", "--before", RUN_IDS["fixed"]),
    "show-newest": ("show",),
    "show-unknown": ("show", "run-unknown"),
    "verify-unknown": ("verify", "run-unknown"),
    "fetch-without-a-system": ("fetch", RUN_IDS["landed"]),
    "hold": ("hold",),
    "gc": ("gc", "--keep-last", "2", "--keep-failed-days", "0", "--keep-days", "0"),
    "keys-list": ("keys", "list"),
    "keys-export": ("keys", "export"),
    "attach-outside-a-repository": ("attach", RUN_IDS["landed"]),
    "check-outside-a-repository": ("check",),
    "hooks-status-outside-a-repository": ("hooks", "status"),
    "refs-list-outside-a-repository": ("refs", "list"),
    "status-of-no-stack": ("status",),
    "context-of-no-stack": ("context", RUN_IDS["landed"]),
    "approvals-of-no-stack": ("approvals", "list"),
    "queue-of-no-stack": ("queue", "list"),
    "down-of-no-stack": ("down",),
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_outputs_of_a_run(name: str, command: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    words = [RUN_IDS[name] if word == "RUN" else word for word in COMMANDS[command]]
    assert recorded_home.run(*words) + recorded_home.run(*words, "--json") == text


@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_every_detail_of_a_run(name: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    assert recorded_home.run("show", RUN_IDS[name], "--verbose") == text


@pytest.mark.parametrize("command", sorted(OTHERS))
def test_outputs_about_many_runs(command: str, recorded_home: RecordedHome, text: SnapshotAssertion) -> None:
    words = OTHERS[command]
    assert recorded_home.run(*words) + recorded_home.run(*words, "--json") == text


@pytest.mark.parametrize("name", sorted(RUN_IDS))
def test_report_page_of_a_run(
    name: str, recorded_home: RecordedHome, text: SnapshotAssertion, html: SnapshotAssertion, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    said = recorded_home.run("report", RUN_IDS[name], "-o", str(file), "--json")
    assert said.replace(str(tmp_path), "<folder>") == text
    assert page(file.read_text(), recorded_home.folder) == html


def test_changed_bundle(recorded_home: RecordedHome, text: SnapshotAssertion, tmp_path: Path) -> None:
    """Each finding of ``verify`` is printed with its reason."""
    copy = tmp_path / RUN_IDS["landed"]
    shutil.copytree(recorded_home.home / "runs" / RUN_IDS["landed"], copy)
    (copy / "contract.json").write_bytes(b"{}")
    (copy / "extra.txt").write_bytes(b"not listed\n")
    words = ("verify", str(copy), "--key", str(recorded_home.home / "keys" / "gatekeeper.pem.pub"))
    said = recorded_home.run(*words) + recorded_home.run(*words, "--json")
    assert said.replace(str(tmp_path), "<folder>") == text
