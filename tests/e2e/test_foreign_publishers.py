"""Publishers that are not ours: the examples as the documentation gives them, on nothing but subjects and JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gatewright.bus.port import Message
from gatewright.contracts import codec
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.intake.submission import submission
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack, slow_request
from tests.factories import make_contract
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NPM = shutil.which("npm")
INSTALL_SECONDS = 240.0


@pytest.fixture(scope="module")
def node_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Node.js example with its one dependency installed, as its user would."""
    if NPM is None:
        pytest.skip("Node.js with npm is not installed on this machine")
    folder = tmp_path_factory.mktemp("node") / "publish-node"
    shutil.copytree(EXAMPLES / "publish-node", folder, ignore=shutil.ignore_patterns("node_modules", "package-lock.json"))
    installed = subprocess.run(
        [NPM, "install", "--no-package-lock"], cwd=folder, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS
    )
    assert installed.returncode == 0, installed.stderr
    return folder


def make_contract_file(project: Path, target: Path) -> Path:
    """A contract for a quick run on ``project``."""
    request = slow_request(project, 0.0)
    contract = make_contract(
        repository=request.repository,
        executor=request.executor,
        acceptance_tests=request.acceptance_tests,
        environment=request.environment,
    )
    contract = msgspec.structs.replace(contract, rollback=msgspec.structs.replace(contract.rollback, baseline_ref="HEAD"))
    target.write_bytes(codec.encode(contract))
    return target


def seed_of(stack: Stack) -> str:
    return str(stack.state.address("publisher").seed)


def publish(argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    return subprocess.run(argv, cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.long
def test_node_publishes_a_contract_and_reads_the_verdict(
    stack: Stack, node_example: Path, make_project: MakeProject, tmp_path: Path
) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    said = publish(["node", "publish.mjs", stack.state.url, seed_of(stack), str(contract)], node_example)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "SUCCESS: ok" in said.stdout
    assert "bundle_sealed" in said.stdout


@pytest.mark.long
def test_a_node_publisher_receives_every_fault_with_its_pointer(
    stack: Stack, node_example: Path, make_project: MakeProject, tmp_path: Path
) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    broken = json.loads(contract.read_text())
    del broken["allowed_paths"]
    broken["acceptance_tests"][0]["must_pass"] = "yes"
    broken["surprise"] = 1
    contract.write_text(json.dumps(broken))
    said = publish(["node", "publish.mjs", stack.state.url, seed_of(stack), str(contract)], node_example)
    assert said.returncode == 2, said.stdout + said.stderr
    for pointer in ("/allowed_paths:", "/acceptance_tests/0/must_pass:", "/surprise:"):
        assert pointer in said.stdout


@pytest.mark.long
def test_plain_nats_py_publishes_a_contract(stack: Stack, make_project: MakeProject, tmp_path: Path) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    said = publish(
        [sys.executable, str(EXAMPLES / "publish_python.py"), stack.state.url, seed_of(stack), str(contract)], tmp_path
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "SUCCESS" in said.stdout


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_cloud_event_is_published_and_makes_one_run(
    language: str, stack: Stack, request: pytest.FixtureRequest, make_project: MakeProject, tmp_path: Path
) -> None:
    event = json.loads((EXAMPLES / "event.json").read_text())
    event["data"] = json.loads(codec.encode(slow_request(make_project(), 0.0)))
    event["id"] = f"build-of-{language}"
    document = tmp_path / "event.json"
    document.write_text(json.dumps(event))
    if language == "node":
        argv, folder = ["node", "publish.mjs"], request.getfixturevalue("node_example")
    else:
        argv, folder = [sys.executable, str(EXAMPLES / "publish_python.py")], tmp_path
    said = publish([*argv, stack.state.url, seed_of(stack), str(document)], folder)
    assert said.returncode == 0, said.stdout + said.stderr
    key = json.dumps(["cloudevent", event["source"], event["id"]], separators=(",", ":"))
    assert f"accepted {run_id_of(key)}" in said.stdout


def test_the_example_event_holds_the_example_request() -> None:
    event, request = (json.loads((EXAMPLES / name).read_text()) for name in ("event.json", "request.json"))
    request.pop("idempotency_key", None)
    assert event["data"] == request
    message = Message("gw.submit", json.dumps(event).encode())
    assert submission(message).run_id == run_id_of(f'["cloudevent","{event["source"]}","{event["id"]}"]')


@pytest.mark.parametrize("name", ["request.json", "contract.json"])
def test_the_example_documents_are_valid(name: str, stack: Stack) -> None:
    validated = stack.command("schema", "validate", str(EXAMPLES / name))
    assert validated.returncode == 0, validated.stdout + validated.stderr
