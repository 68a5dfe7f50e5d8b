"""Where evidence cannot be written, a run ends, the command says so, and the bundle comes when it can; notes on the commit."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, wait_until

EDIT = "python tools/edit.py 0 {paths}"
CHECK = "python tools/check.py 0"


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(project), *words], capture_output=True, text=True, check=True).stdout


def test_a_disk_that_refuses_ends_the_run_in_words_and_the_bundle_comes_later(
    own_stack: Stack, make_project: MakeProject
) -> None:
    """A file in the place of the folder of bundles: root, too, is refused. The gatekeeper stays up all the while."""
    project, runs = make_project(), own_stack.home / "runs"
    assert not runs.exists()
    runs.touch()
    gatekeeper = own_stack.members("gatekeeper")
    started = time.monotonic()
    words = ("run", "edit", "--repo", str(project), "--allow", "src", "--exec", EDIT, "--test", CHECK, "--json")
    refused = own_stack.command(*words)
    assert time.monotonic() - started < 15
    assert refused.returncode == 3, refused.stdout
    last = json.loads(refused.stdout.splitlines()[-1])
    assert last["failure"]["code"] == "bundle_not_sealed"
    assert "Not a directory" in last["failure"]["message"]
    assert "gatewright/" not in git(project, "for-each-ref", "refs/heads")
    runs.unlink()
    bundle = runs / last["run_id"]
    wait_until((bundle / "manifest.json").exists)
    wait_until(lambda: own_stack.command("verify", str(bundle)).returncode == 0)
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
    assert stack.command("attach", result["run_id"]).returncode == 0
    note = git(project, "notes", "--ref=gatewright", "show", commit).encode()
    assert note == b"".join((bundle / name).read_bytes() + b"\n" for name in ("manifest.dsse.json", "checks.dsse.json"))
    integrity = manifest["integrity"]
    assert 1 <= integrity["ledger_first"] < integrity["ledger_last"]
