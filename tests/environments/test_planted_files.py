"""Code of a package that is built in the box writes into the environment: nothing outside of it may follow its links."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import served
from tests.environments.test_pull import hostile_package, prepare
from tests.environments.wheels import index_of, make_wheel, pip_from

#: A build backend that does ``{attack}`` once, with ``TARGET``, a path of the host.
BACKEND = """
import os, pathlib, shutil, sys, zipfile
TARGET = {target!r}
SITE = next(pathlib.Path(sys.prefix).glob("lib/python*/site-packages"))
SCRATCH = pathlib.Path(os.environ["XDG_DATA_HOME"]).parent
if not (SCRATCH / "done").exists():
    (SCRATCH / "done").touch()
    {attack}

def build_wheel(folder, settings=None, metadata=None):
    name, info = "hostile-1.0-py3-none-any.whl", "hostile-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("hostile.py", "")
        wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: hostile\\nVersion: 1.0\\n")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return name
"""
PYPROJECT = '[project]\nname = "own"\nversion = "1"\n[project.scripts]\nown-tool = "own:main"\n'


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "needed")
    return tmp_path / "wheels"


def plant(wheels: Path, attack: str, target: Path) -> None:
    hostile_package(wheels, {}, {"backend.py": BACKEND.format(attack=attack, target=str(target))})


async def built(tmp_path: Path, wheels: Path, tree: Tree) -> Path:
    with served(index_of(wheels)) as address:
        prefix, _ = await prepare(tmp_path, Installer(pip_from(address, tmp_path), source_builds=True), tree)
    return prefix


async def test_a_second_list_of_packages_follows_no_planted_link(tmp_path: Path, wheels: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("content of the host")
    attack = 'listed = SCRATCH / "requirements.txt"; listed.unlink(); listed.symlink_to(TARGET)'
    plant(wheels, attack, kept)
    tree = Tree({"requirements-dev.txt": "hostile\nabsent", "requirements-test.txt": "needed"})
    prefix = await built(tmp_path, wheels, tree)
    assert list(prefix.glob("lib/python*/site-packages/needed.py"))
    assert kept.read_text() == "content of the host"


async def test_a_script_of_the_project_follows_no_planted_link(tmp_path: Path, wheels: Path) -> None:
    target = tmp_path / "new-file"
    plant(wheels, 'pathlib.Path(sys.prefix, "bin/own-tool").symlink_to(TARGET)', target)
    await built(tmp_path, wheels, Tree({"requirements.txt": "hostile", "pyproject.toml": PYPROJECT}))
    assert not target.exists()


async def test_code_of_a_package_changes_no_pip_but_its_own(tmp_path: Path, wheels: Path) -> None:
    plant(wheels, '[each.write_text("changed") for each in SITE.glob("pip/__init__.py")]', tmp_path)
    prefix = await built(tmp_path, wheels, Tree({"requirements.txt": "hostile"}))
    made = {each.parts[-6]: each.read_text() for each in prefix.parent.glob("*/lib/python*/site-packages/pip/__init__.py")}
    assert made.pop(prefix.name) == "changed"
    assert len(made) == 1
    assert "changed" not in made.values()


LINKS = {
    "bin": 'scripts = pathlib.Path(sys.prefix, "bin"); shutil.move(scripts, SCRATCH); scripts.symlink_to(SCRATCH / "bin")',
    "site-packages": 'shutil.move(SITE, SCRATCH); SITE.symlink_to(SCRATCH / "site-packages")',
    "evil-1.dist-info": '(SITE / "evil-1.dist-info").symlink_to(TARGET)',
    "RECORD": 'evil = SITE / "evil-1.dist-info"; evil.mkdir(); (evil / "RECORD").symlink_to(TARGET + "/RECORD")',
}


@pytest.mark.parametrize("name", LINKS)
async def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, wheels: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "RECORD").write_text("../../../bin/pip,sha256=x,1\n")
    plant(wheels, LINKS[name], outside)
    with pytest.raises(NotPreparedError, match=rf"{name} of its environment by a link"):
        await built(tmp_path, wheels, Tree({"requirements.txt": "hostile", "pyproject.toml": PYPROJECT}))
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"RECORD": "../../../bin/pip,sha256=x,1\n"}
