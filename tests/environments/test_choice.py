"""Which environments ``--env auto`` prepares: those that the commands need; all that are declared for one that says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.sandbox.environments import read_record
from tests.ecosystems.python.trees import Tree
from tests.environments.test_node import INSTALLS, fake_npm

LOCK = '{"name": "front", "lockfileVersion": 3, "packages": {"": {"name": "front"}}}'
TREE = {
    "requirements.txt": "# nothing\n",
    "front/package.json": '{"name": "front"}',
    "front/package-lock.json": LOCK,
    "Cargo.toml": '[package]\nname = "small"\n',
    "go.mod": "module example.org/small\n",
}


async def prepared(folder: Path, installer: Installer, *commands: str) -> list[str]:
    made = await prepare_environments(folder / "home", Tree(TREE), commands, installer, print)
    return [record.ecosystem for record in map(read_record, made) if record is not None]


async def test_each_command_gets_its_environment_and_unclear_ones_all(tmp_path: Path) -> None:
    installer = fake_npm(tmp_path, INSTALLS)
    assert await prepared(tmp_path, installer, "python3.12 -m unittest") == ["python"]
    assert await prepared(tmp_path, installer, "npm test") == ["node"]
    assert await prepared(tmp_path, installer, "npm test", "python -m unittest") == ["python", "node"]
    assert await prepared(tmp_path, installer, "make test") == ["python", "node"]


async def test_packages_of_a_folder_are_shown_in_that_folder(tmp_path: Path) -> None:
    (made,) = await prepare_environments(tmp_path / "home", Tree(TREE), ("npm test",), fake_npm(tmp_path, INSTALLS), print)
    record = read_record(made)
    assert record is not None
    assert record.mounts == {"front/node_modules": "files/front/node_modules"}
    assert list(record.sources) == ["front/package-lock.json", "front/package.json (packages)"]


async def test_a_dependency_without_a_lock_file_is_reported(tmp_path: Path) -> None:
    tree = Tree({"go.mod": "module example.org/m\nrequire example.org/n v1.0.0\n"})
    with pytest.raises(NotPreparedError, match=r"no go.sum; leave --env out"):
        await prepare_environments(tmp_path / "home", tree, ("go test",), Installer({"PATH": ""}), print)


@pytest.mark.parametrize("command", ["go test ./...", "node --test", "npm test", "ctest --test-dir build", "make test"])
async def test_a_project_that_asks_for_no_package_needs_no_environment(tmp_path: Path, command: str) -> None:
    told: list[str] = []
    tree = Tree({"go.mod": "module example.org/m\n\ngo 1.19\n", "package.json": '{"name": "m"}', "CMakeLists.txt": ""})
    assert await prepare_environments(tmp_path / "home", tree, (command,), Installer({"PATH": ""}), told.append) == ()
    assert told == ["no file asks for packages: commands see what the system has"]
