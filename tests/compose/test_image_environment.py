"""An environment profile that is an image: a real engine gives its files out, and a whole run's commands are held in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.resources import policy_directory
from tests.e2e.stack import Stack, running_stack
from tests.git.repositories import MakeRepository, Repository

pytestmark = pytest.mark.compose

BASE = "python:3.12-slim"
TEST = b"""import os, sys, unittest
from src import a

class TestA(unittest.TestCase):
    def test_a(self):
        self.assertEqual(a.value, 2)
        self.assertEqual((sys.prefix, sys.version_info[:2]), ("/usr/local", (3, 12)))
        self.assertFalse([name for name in ("/usr/bin/git", "/.dockerenv", "/run", "/var") if os.path.exists(name)])
"""
FILES = {
    "src/__init__.py": b"",
    "src/a.py": b"value = 1\n",
    "tests/__init__.py": b"",
    "tests/test_a.py": TEST,
    "tools/edit.py": b"import sys; open('src/a.py', 'w').write(f'value = {sys.argv[1]}\\n')\n",
    "tools/escape.py": b"open('/usr/local/lib/python3.12/this.py', 'a').write('x')\n",
}


@dataclass(frozen=True)
class ImageStack(Stack):
    policies: Path

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"GATEWRIGHT_POLICIES": str(self.policies)}

    def submit(self, project: Path, *words: str) -> tuple[int, dict[str, Any]]:
        """``gatewright run`` without an environment: what commands see is for the profile to say."""
        given = ("run", "a change", "--json", "--allow", "src", "--language", "python", *words)
        finished = self.command(*given, cwd=project)
        assert finished.stdout, finished.stderr
        result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return finished.returncode, result


@pytest.fixture(scope="module")
def image(engine_here: None) -> str:
    """The base image by the digest of its configuration, as an engine knows what came from no registry."""
    words = ("docker", "image", "inspect", "--format", "{{.Id}}", BASE)
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return f"{BASE.partition(':')[0]}@{found}"


@pytest.fixture(scope="module")
def stack(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageStack]:
    top = tmp_path_factory.mktemp("images")
    policies = Path(shutil.copytree(policy_directory(), top / "policies"))
    profile = {"language": "python", "image": image, "tools": ["python"]}
    (policies / "environments.json").write_text(json.dumps({"version": "1", "profiles": [profile]}))
    with running_stack(top / "home", workers=1, stack=ImageStack(top / "home", policies)) as stack:
        assert isinstance(stack, ImageStack)
        yield stack


@pytest.fixture
def project(make_repository: MakeRepository) -> Path:
    return make_repository("project", files=FILES).path


def containers() -> set[str]:
    """The ids of all containers that have a name of ours, also of those that have ended."""
    listed = ("docker", "ps", "--all", "--quiet", "--filter", "name=gatewright-")
    return set(subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split())


def test_an_image_runs_its_programs_only_after_unpacking(stack: ImageStack, image: str, project: Path) -> None:
    words = ("--exec", "python tools/edit.py 2", "--test", "python -m unittest -v")
    code, result = stack.submit(project, *words)
    assert (code, (result["failure"] or {}).get("code")) == (1, "environment_image_unavailable")
    assert f"gatewright image {image}" in result["failure"]["message"]

    place = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    tagged = stack.command("image", BASE, extra=place)
    assert (tagged.returncode, "by its digest" in tagged.stderr) == (3, True)
    before = containers()
    unpacked = stack.command("image", image, "--json", extra=place)
    assert unpacked.returncode == 0, unpacked.stderr
    assert containers() <= before

    code, result = stack.submit(project, *words)
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    assert Repository(project, project.parent / "home").git("show", f"{result['branch']}:src/a.py") == b"value = 2\n"
    assert stack.process("verify", result["bundle"]).returncode == 0
    report = json.loads((Path(result["bundle"]) / "reports" / "test_report.json").read_bytes())
    seen = report["surroundings"]
    assert (seen["image"], seen["sandbox"]["sandbox"]) == (image, "bubblewrap")
    (command,) = report["commands"]
    proof = command["proof"]
    assert (proof["framework"], proof["counts"]["passed"]) == ("unittest", 1)
    assert (proof["control"]["failing_outcome"], proof["control"]["passing_outcome"]) == ("failed", "passed")


def test_a_wrong_change_fails_in_an_image_and_writes_nothing(stack: ImageStack, image: str, project: Path) -> None:
    assert stack.command("image", image).returncode == 0
    code, result = stack.submit(project, "--exec", "python tools/edit.py 3", "--test", "python -m unittest -v")
    assert (code, (result["failure"] or {})["code"]) == (1, "tests_failed")
    code, result = stack.submit(project, "--exec", "python tools/escape.py", "--test", "python -m unittest -v")
    assert (code, (result["failure"] or {})["code"]) == (1, "executor_failed")
    assert "this.py" in result["failure"]["message"]  # the system is read-only, and for a service of root not even its own
