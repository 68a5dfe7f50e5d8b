"""Which environment a project gets: keyed by what is installed, so that other edits of its files make no new one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import go_plans
from gatewright.app.environments.node_install import node_plans
from gatewright.app.environments.plan import EnvironmentPlan, Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.app.environments.python_install import python_plan
from gatewright.app.environments.rust_install import rust_plans
from gatewright.sandbox.environments import PREPARED
from tests.ecosystems.python.trees import Tree
from tests.environments.wheels import make_wheel, pip_for

PYPROJECT = '[project]\nname = "own"\nversion = "1"\ndependencies = ["needed"]\n'
CARGO = '[package]\nname = "own"\nversion = "1.0.0"\n[dependencies]\nneeded = "1"\n'
CARGO_LOCK = (
    '[[package]]\nname = "needed"\nversion = "1.0.0"\nchecksum = "00"\n'
    'source = "registry+https://github.com/rust-lang/crates.io-index"\n'
)
MANIFEST = {"name": "own", "version": "1.0.0", "devDependencies": {"needed": "1"}}
NPM_LOCK = json.dumps({"name": "own", "lockfileVersion": 3, "packages": {"": MANIFEST}})


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    """One that has the programs of all ecosystems, of which none is started."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cargo", "go", "npm", "node"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    return Installer({"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)})


async def nothing_to_make(plan: EnvironmentPlan) -> Path:
    raise AssertionError(plan.name)


async def plan_for(tree: Tree, installer: Installer) -> EnvironmentPlan:
    if "Cargo.toml" in tree.paths:
        return (await rust_plans(tree, (), installer))[0]
    if "package.json" in tree.paths:
        return (await node_plans(tree, ("npm test",), installer, unlocked=True))[0]
    if "go.mod" in tree.paths:
        return (await go_plans(tree, (), installer))[0]
    return await python_plan(tree, ("python -m pytest",), installer, nothing_to_make)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT + "[tool.ruff]\nline-length = 100\n"}),
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace("[project]", "# words\n[project]")}),
        (
            {"pyproject.toml": "[tool.x]\n", "setup.cfg": "[options]\ninstall_requires = needed\n"},
            {"pyproject.toml": "[tool.y]\n", "setup.cfg": "[options]\ninstall_requires = needed\n[flake8]\nmax = 3\n"},
        ),
        ({"poetry.lock": "", "pyproject.toml": "[tool.a]"}, {"poetry.lock": "", "pyproject.toml": "[tool.b]"}),
        ({"requirements.txt": "needed\n"}, {"requirements.txt": "# of the program\nneeded  # why\n"}),
        (
            {"package.json": json.dumps(MANIFEST), "package-lock.json": NPM_LOCK},
            {"package.json": json.dumps({**MANIFEST, "scripts": {"test": "vitest"}}, indent=2), "package-lock.json": NPM_LOCK},
        ),
        (
            {"package.json": json.dumps(MANIFEST)},
            {"package.json": json.dumps({**MANIFEST, "jest": {"verbose": True}, "description": "d"})},
        ),
        (
            {"Cargo.toml": CARGO, "Cargo.lock": CARGO_LOCK},
            {"Cargo.toml": CARGO + "[profile.release]\nlto = true\n[lints.rust]\nunused = 'deny'\n", "Cargo.lock": CARGO_LOCK},
        ),
    ],
)
async def test_an_edit_that_installs_nothing_else_keeps_the_environment(
    before: dict[str, str], after: dict[str, str], installer: Installer
) -> None:
    assert (await plan_for(Tree(before), installer)).digest == (await plan_for(Tree(after), installer)).digest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace("needed", "needed>=2")}),
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT + '[dependency-groups]\ntest = ["other"]\n'}),
        # What importlib.metadata reports of the project is part of the environment.
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace('"1"', '"2"')}),
        ({"requirements.txt": "needed"}, {"requirements.txt": "needed==1"}),
        (
            {"requirements.txt": "needed\n-c pins.txt", "pins.txt": ""},
            {"requirements.txt": "needed\n-c pins.txt", "pins.txt": "needed<2"},
        ),
        ({"poetry.lock": ""}, {"poetry.lock": '[[package]]\nname = "a"\nversion = "1"\n'}),
        (
            {"package.json": json.dumps(MANIFEST)},
            {"package.json": json.dumps({**MANIFEST, "devDependencies": {"needed": "2"}})},
        ),
        ({"package.json": json.dumps(MANIFEST)}, {"package.json": json.dumps({**MANIFEST, "engines": {"node": ">=90"}})}),
        (
            {"Cargo.toml": CARGO, "Cargo.lock": CARGO_LOCK},
            {"Cargo.toml": CARGO.replace('"1"', '"2"'), "Cargo.lock": CARGO_LOCK},
        ),
        ({"go.mod": "module m\n", "go.sum": "a"}, {"go.mod": "module m\n", "go.sum": "b"}),
    ],
)
async def test_an_edit_that_installs_something_else_makes_another_environment(
    before: dict[str, str], after: dict[str, str], installer: Installer
) -> None:
    assert (await plan_for(Tree(before), installer)).digest != (await plan_for(Tree(after), installer)).digest


async def test_what_is_installed_does_not_depend_on_the_version_of_the_project(installer: Installer, tmp_path: Path) -> None:
    asked: list[EnvironmentPlan] = []

    async def ask(plan: EnvironmentPlan) -> Path:
        asked.append(plan)
        raise NotPreparedError("asked")

    for text in (PYPROJECT, PYPROJECT.replace('"1"', '"2"')):
        plan = await python_plan(Tree({"pyproject.toml": text}), ("python -m pytest",), installer, ask)
        with pytest.raises(NotPreparedError, match="asked"):
            await plan.make(tmp_path)
    assert asked[0].digest == asked[1].digest


UV_LOCK = Tree({"pyproject.toml": '[project]\nname = "own"\nversion = "1"\n', "uv.lock": "version = 1\n"})


def uv_wheel(wheels: Path) -> tuple[str, ...]:
    """A wheel whose program exports what a real one would, and the requirement that pins it."""
    program = (
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --output-file ] && out=$2; shift; done\necho \'needed==1.0\' >"$out"\n'
    )
    wheel = make_wheel(wheels, "uv", "9.9", files={"uv-9.9.data/scripts/uv": program})
    return (f"uv==9.9 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}",)


@pytest.mark.long
async def test_a_host_without_uv_takes_the_pinned_one_from_its_registry(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "needed")
    told: list[str] = []
    installer = Installer(pip_for(wheels), uv=uv_wheel(wheels))
    (prefix,) = await prepare_environments(tmp_path / "home", UV_LOCK, ("python t.py",), installer, told.append)
    assert list(json.loads((prefix / PREPARED).read_text())["sources"]) == ["uv.lock (packages)"]
    assert list(prefix.glob("lib/python*/site-packages/needed.py"))
    assert not (prefix / "bin/uv").exists()
    # Once: the next project finds it.
    told.clear()
    again = await prepare_environments(tmp_path / "home", UV_LOCK, ("python t.py",), installer, told.append)
    exists = [f"the environment from {name} exists: 0 requests to registries" for name in ("uv==9.9", "uv.lock")]
    assert (again, told) == ((prefix,), exists)


@pytest.mark.long
async def test_a_registry_that_serves_another_uv_is_refused(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    pinned = uv_wheel(wheels)
    make_wheel(wheels, "uv", "9.9", files={"uv-9.9.data/scripts/uv": "#!/bin/sh\necho other\n"})
    with pytest.raises(NotPreparedError, match=r"THESE PACKAGES DO NOT MATCH THE HASHES"):
        await prepare_environments(
            tmp_path / "home", UV_LOCK, ("python t.py",), Installer(pip_for(wheels), uv=pinned), lambda _: None
        )


@pytest.mark.long
async def test_a_project_without_any_file_of_packages_gets_the_test_runner(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "pytest")
    told: list[str] = []
    tree = Tree({"price.py": "", "test_price.py": ""})
    (prefix,) = await prepare_environments(
        tmp_path / "home", tree, ("python -m pytest -q",), Installer(pip_for(tmp_path / "wheels")), told.append
    )
    assert list(prefix.glob("lib/python*/site-packages/pytest.py"))
    assert told[1] == "no file names the packages of the project: only pytest is installed, as a command starts it"
