"""A client in another language, generated from the AsyncAPI document alone: a contract in, a verdict and a bundle out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.evidence.store.archive import unpack
from tests.e2e.conftest import MakeProject
from tests.e2e.stack import Stack
from tests.e2e.test_foreign_publishers import EXAMPLES, INSTALL_SECONDS, NPM, make_contract_file, publish, seed_of

pytestmark = pytest.mark.long
DOCUMENT = EXAMPLES.parent / "docs" / "asyncapi" / "publisher.json"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client generated from the committed document, checked by the TypeScript compiler."""
    if NPM is None:
        pytest.skip("Node.js with npm is not installed on this machine")
    folder = tmp_path_factory.mktemp("typescript") / "client"
    left_out = shutil.ignore_patterns("node_modules", "package-lock.json", "generated", "build")
    shutil.copytree(EXAMPLES / "client-typescript", folder, ignore=left_out)
    for command in (
        [NPM, "install", "--no-package-lock", "--no-audit", "--no-fund"],
        ["node", "generate.mjs", str(DOCUMENT), "generated/gatewright.ts"],
        [NPM, "run", "build"],
    ):
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_generated_client_submits_a_contract_and_fetches_its_bundle(
    stack: Stack, client: Path, make_project: MakeProject, tmp_path: Path
) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    bundle = tmp_path / "bundle.zip"
    said = publish(["node", "build/publish.js", stack.state.url, seed_of(stack), str(contract), str(bundle)], client)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "SUCCESS: ok: landed" in said.stdout
    assert "bundle_sealed" in said.stdout
    unpack(bundle, tmp_path / "bundle")
    verified = stack.command("verify", str(tmp_path / "bundle"))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_what_a_generated_client_sends_wrongly_comes_back_as_a_typed_error(
    stack: Stack, client: Path, make_project: MakeProject, tmp_path: Path
) -> None:
    contract = make_contract_file(make_project(), tmp_path / "contract.json")
    contract.write_text(contract.read_text().replace('"allowed_paths"', '"allowed_place"'))
    said = publish(["node", "build/publish.js", stack.state.url, seed_of(stack), str(contract), "none.zip"], client)
    assert said.returncode == 2, said.stdout + said.stderr
    assert "refused: malformed" in said.stdout
    assert "/allowed_paths: is required" in said.stdout
