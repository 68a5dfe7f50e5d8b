"""Where evidence cannot be written, a run waits, and goes on when it can; notes on the commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, slow_request, wait_until
from tests.waiting import PATIENCE

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(project), *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_a_run_waits_until_its_evidence_can_be_written(own_stack: Stack, make_project: MakeProject) -> None:
    """A file in the place of the folder of bundles: root, too, is refused. The gatekeeper stays up all the while."""
    project, runs = make_project(), own_stack.home / "runs"
    assert not runs.exists()
    runs.touch()
    gatekeeper = own_stack.members("gatekeeper")
    log = own_stack.home / "logs" / "gatekeeper.log"
    with own_stack.client() as client:
        run_id = client.submit_request(slow_request(project, 0.0), patience=PATIENCE)
        wait_until(lambda: b"evidence_unwritable" in log.read_bytes() and b"Not a directory" in log.read_bytes())
        assert not client.get(run_id).ended
        assert "gatewright/" not in git(project, "for-each-ref", "refs/heads")
        runs.unlink()
        run = client.wait(run_id, timeout=PATIENCE)
    assert run.status == "SUCCESS"
    assert own_stack.command("verify", str(runs / run_id)).returncode == 0
    assert own_stack.members("gatekeeper") == gatekeeper
    code, result = own_stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    assert (code, result["status"]) == (0, "SUCCESS")


def test_the_landed_commit_leads_to_its_evidence(stack: Stack, make_project: MakeProject) -> None:
    project = make_project()
    _, result = stack.run(project, "--allow", "src", "--exec", EDIT, "--test", CHECK)
    bundle = Path(result["bundle"])
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    commit = manifest["repo"]["final_ref"]
    body = git(project, "log", "-1", "--format=%(trailers:only,unfold)", commit)
    trailers = dict(line.split(": ", 1) for line in body.splitlines() if line)
    events = [json.loads(line) for line in (bundle / "events.jsonl").read_text().splitlines()]
    seq, _, head = trailers["Gatewright-Event-Chain"].partition(":")
    assert trailers["Gatewright-Run"] == result["run_id"]
    assert trailers["Gatewright-Contract"] == f"sha256:{manifest['evidence_hashes']['contract.json']}"
    assert events[int(seq) - 1]["hash"] == head
    attached = stack.command("attach", result["run_id"])
    assert (attached.returncode, attached.stdout.partition(" in ")[0]) == (0, f"attached to {commit}")
    note = git(project, "notes", "--ref=gatewright", "show", commit).encode()
    assert note == b"".join((bundle / name).read_bytes() + b"\n" for name in ("manifest.dsse.json", "checks.dsse.json"))
    verified = stack.command("verify-commit", commit, "--repo", str(project))
    assert (verified.returncode, verified.stdout.splitlines()[0]) == (0, f"✔ {commit}: verified by note")
    integrity = manifest["integrity"]
    assert 1 <= integrity["ledger_first"] < integrity["ledger_last"]
