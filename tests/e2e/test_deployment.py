"""Landed runs that are deployed and rolled back, by commands in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gatewright.bus.identities import OPERATOR, seed_file
from gatewright.evidence.signing import keys
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.e2e.test_revert import EDIT, detached, revert
from tests.waiting import wait_until

TARGET = ("--land", "target", "--target-ref", "main")
SCRIPT = b"import pathlib\nprint('serving', pathlib.Path('src/a.py').read_text())\n"


def policies(folder: Path, repository: Path, command: str) -> dict[str, str]:
    """Write the policy; return the variables that name it."""
    folder.mkdir(exist_ok=True)
    entry = {
        "name": "site",
        "command": ["python3", "-c", command],
        "repositories": [str(repository)],
        "refs": ["refs/heads/main"],
    }
    (folder / "deployments.json").write_text(json.dumps({"version": "1", "deployments": [entry]}))
    return {"GATEWRIGHT_POLICIES": str(folder)}


def deployed(stack: Stack, run_id: str, variables: Mapping[str, str]) -> tuple[int, dict[str, Any], str]:
    """Deploy; return exit code, record and output."""
    said = stack.command("deploy", run_id, "--to", "site", "--json", extra=variables)
    assert said.stdout, said.stderr
    found = json.loads(said.stdout)
    output = Path(found["file"]).with_name(found["record"]["files"][0]["path"]).read_text()
    return said.returncode, found["record"], output


def test_a_landed_run_is_deployed_and_rolled_back(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    repository = detached(make_project)
    variables = policies(tmp_path / "policies", repository.path, SCRIPT.decode())
    before = repository.git("show", "main:src/a.py").decode()
    code, first = stack.run(repository.path, "--allow", "src/a.py", *EDIT, *TARGET)
    assert (code, first["status"]) == (0, "SUCCESS"), first
    after = repository.git("show", "main:src/a.py").decode()
    code, record, output = deployed(stack, first["run_id"], variables)
    assert (code, record["state"], record["commit"]) == (0, "READY", first["commit"])
    assert output == f"serving {after}\n"
    code, second = revert(stack, repository.path, first["run_id"], "--reason", "it was too early")
    assert (code, second["status"]) == (0, "SUCCESS"), second
    code, record, output = deployed(stack, second["run_id"], variables)
    assert (code, record["state"], output) == (0, "READY", f"serving {before}\n")
    assert "deployed   ✔ READY" in stack.command("show", first["run_id"]).stdout


def test_results_leave_a_host_that_has_only_the_bus(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    repository = detached(make_project)
    _, run = stack.run(repository.path, "--allow", "src/a.py", *EDIT, *TARGET)
    variables = policies(tmp_path / "policies", repository.path, "print('address: https://shop.example/')")
    share = tmp_path / "share"
    share.mkdir()
    sink = {"name": "share", "kind": "folder", "address": str(share), "classifications": ["internal"]}
    (tmp_path / "policies/sinks.json").write_text(json.dumps({"version": "1", "sinks": [sink]}))
    other = Stack(tmp_path / "other")
    other.home.mkdir()
    seed = seed_file(Path(stack.state.keys), OPERATOR)
    variables |= {"GATEWRIGHT_NATS_URL": stack.state.url, "GATEWRIGHT_NATS_SEED": str(seed)}
    key = str(stack.home / "keys/gatekeeper.pem.pub")
    published = other.command("publish", run["run_id"], "--to", "share", "--key", key, extra=variables)
    assert published.returncode == 0, published.stderr
    assert (share / run["run_id"] / "patch.diff").read_bytes() == (Path(run["bundle"]) / "patch.diff").read_bytes()
    done = other.command("deploy", run["run_id"], "--to", "site", "--key", key, extra=variables)
    assert done.returncode == 0, done.stderr
    assert "READY" in done.stdout
    keys.create(tmp_path / "stranger.pem")
    stranger = str(keys.public_path(tmp_path / "stranger.pem"))
    refused = other.command("deploy", run["run_id"], "--to", "site", "--key", stranger, "--json", extra=variables)
    assert json.loads(refused.stdout)["error"]["code"] == "bundle_not_verified"


def runs(mark: str) -> bool:
    """Whether a command with this word runs."""
    return subprocess.run(["pgrep", "-f", f"^python3 -c.*{mark}"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("sent", "state"), [(signal.SIGINT, "ERROR"), (signal.SIGKILL, "RUNNING")], ids=["ctrl-c", "killed"])
def test_a_deployment_that_is_ended_is_recorded(
    stack: Stack, make_project: MakeProject, tmp_path: Path, sent: signal.Signals, state: str
) -> None:
    repository = detached(make_project)
    mark = f"mark-{uuid.uuid4().hex}"
    slow = policies(tmp_path / "policies", repository.path, f"import time\n{mark!r}\ntime.sleep(900)")
    _, run = stack.run(repository.path, "--allow", "src/a.py", *EDIT, *TARGET)
    argv = [sys.executable, "-m", "gatewright.app.cli.main", "deploy", run["run_id"], "--to", "site"]
    place: dict[str, Any] = {"cwd": stack.home.parent, "env": {**stack.environment, **slow}}
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **place) as process:
        assert wait_until(lambda: runs(mark))
        process.send_signal(sent)
    assert process.returncode != 0
    assert wait_until(lambda: not runs(mark))
    (found,) = json.loads(stack.command("deploy", run["run_id"], "--json", extra=slow).stdout)["deployments"]
    assert (found["record"]["state"], found["code"]) == (state, "")
    quick = policies(tmp_path / "policies", repository.path, "print(1)")
    assert deployed(stack, run["run_id"], quick)[1]["state"] == "READY"
