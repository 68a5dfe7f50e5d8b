"""What a run's environment was made of: on one line, as a page, and as two bills of materials."""

from __future__ import annotations

import json
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tests.e2e.stack import Stack
from tests.ecosystems.environments import make_environment
from tests.environment_inventory.installed import install
from tests.git.repositories import MakeRepository

CHANGE = b"import pathlib\npathlib.Path('a.py').write_text('a = 2\\n')\n"
TESTS = b"""import unittest
import a, needed

class Values(unittest.TestCase):
    def test_both(self):
        self.assertIn(a.a, (needed.value, 2))
"""
WORDS = ("--allow", "a.py", "--exec", "python tools/change.py", "--test", "python -m unittest")


def test_a_run_shows_and_exports_what_its_environment_was_made_of(tmp_path: Path, make_repository: MakeRepository) -> None:
    tmp_path.chmod(0o755)
    site = make_environment(tmp_path / "env", pytest=False)
    install(tmp_path / "env", metadata="License-Expression: MIT\n")
    (site / "planted.pth").touch()
    repository = make_repository("project", files={"a.py": b"a = 1\n", "test_a.py": TESTS, "tools/change.py": CHANGE})
    stack = Stack(tmp_path / "home")
    words = ("run", "a change", "--env", str(tmp_path / "env"), "--json", *WORDS)
    done = stack.command(*words, cwd=repository.path)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["status"]) == (0, "SUCCESS"), done.stdout + done.stderr
    run = result["run_id"]
    shown = stack.command("show", run).stdout
    assert "environment  python 3." in shown
    assert ": 1 packages, 1 unknown files" in shown
    figures = json.loads(stack.command("show", run, "--json").stdout)["environment"]
    assert (figures["packages"], figures["unknown_files"], figures["altered_files"]) == (1, 1, 0)
    table = stack.command("show", run, "--as", "inventory").stdout
    assert "planted.pth" in table
    assert any(line.split() == ["needed", "1.0", "MIT"] for line in table.splitlines())
    cyclonedx = stack.command("show", run, "--as", "cyclonedx").stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(cyclonedx) is None
    assert [each["purl"] for each in json.loads(cyclonedx)["components"]] == ["pkg:pypi/needed@1.0"]
    place = tmp_path / "run.spdx.json"
    place.write_text(stack.command("show", result["bundle"], "--as", "spdx").stdout)
    assert validate_full_spdx_document(parse_file(str(place))) == []
    assert stack.command("verify", result["bundle"]).returncode == 0
    page = tmp_path / "page.html"
    assert stack.command("report", run, "--output", str(page)).returncode == 0
    assert "1 packages, 1 unknown files" in page.read_text()
    assert "<td>needed</td><td>1.0</td><td>MIT</td>" in page.read_text()
