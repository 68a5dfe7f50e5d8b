"""Which files a change of tests brings along, by their names."""

from __future__ import annotations

import json

import pytest

from gatewright.ecosystems.python.pytest_settings import SETTING_FILES
from gatewright.ecosystems.runner.names import is_runner_setting, is_test
from gatewright.ecosystems.runner.settings import is_manifest
from gatewright.resources import policy_directory


def test_every_protected_runner_setting_is_known_by_name() -> None:
    classes = json.loads((policy_directory() / "protected_paths.json").read_bytes())["classes"]
    (runner,) = (each for each in classes if each["name"] == "runner")
    names = [pattern.removeprefix("/").replace("*", "x") for pattern in runner["patterns"]]
    assert len(names) > 40
    assert [name for name in names if not is_runner_setting(name.encode())] == []


@pytest.mark.parametrize("path", [b"pricing.py", b"src/Makefile", b"package.json", b"docs/pytest.md", b"contest.py"])
def test_sources_manifests_and_makefiles_further_down_are_neither(path: bytes) -> None:
    assert not is_runner_setting(path)
    assert not is_test(path)


@pytest.mark.parametrize("path", [b"conftest.py", b"src/test_a.py", b"tests/data/a.json", b"web/a.test.ts", b"a_test.go"])
def test_tests_and_what_lies_among_them_are_known(path: bytes) -> None:
    assert is_test(path)


@pytest.mark.parametrize("name", sorted(SETTING_FILES))
def test_every_pytest_settings_file_is_a_runner_setting_or_manifest(name: str) -> None:
    assert is_runner_setting(name.encode()) or is_manifest(name.encode())
