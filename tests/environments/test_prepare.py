"""``--env auto``: made once from what a tree declares, by the user's pip, without running anything that is installed."""

from __future__ import annotations

import asyncio
import ensurepip
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import allows
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.app.environments.python_recipe import python_recipe
from gatewright.app.environments.virtual_environments import UNPACK
from gatewright.app.retention.caches import find_caches
from gatewright.environment_inventory.reading import read_inventory
from gatewright.host_facts import surroundings
from gatewright.sandbox.environments import PREPARED
from tests.ecosystems.python.trees import Tree
from tests.environments.wheels import make_wheel, pip_for

PYPROJECT = """
[project]
name = "Some.Pkg"
dynamic = ["version"]
dependencies = ["needed", "some-pkg[test]"]
requires-python = ">=3.11"
scripts = {tell = "some.cli:main"}
[project.optional-dependencies]
test = ["tested"]
docs = ["undocumented"]
[project.entry-points.plugins]
one = "some.plugin"
[dependency-groups]
dev = ["grouped", {include-group = "more"}]
more = ["included"]
[tool.hatch.version]
path = "src/some/about.py"
"""


EXISTS = "the environment from {} exists: 0 requests to registries"
LISTED = Tree({"requirements.txt": "starter\nlisted"})


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    for name in ("needed", "tested", "grouped", "included", "listed"):
        make_wheel(tmp_path / "wheels", name)
    return tmp_path / "wheels"


@dataclass(frozen=True)
class Prepared:
    """An environment that two runs asked for at once; one of its packages would start ``mark`` with the interpreter."""

    place: Path
    wheels: Path
    prefixes: tuple[Path, Path]
    notes: tuple[str, ...]
    mark: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    place = tmp_path_factory.mktemp("prepared")
    wheels, mark = place / "wheels", place / "ran"
    make_wheel(wheels, "listed")
    make_wheel(wheels, "starter", files={"starter.pth": f"import os; open({str(mark)!r}, 'w')\n"})
    (one, told), (other, told_other) = await asyncio.gather(*(prepare(place, LISTED, wheels) for _ in range(2)))
    return Prepared(place, wheels, (one, other), (*told, *told_other), mark)


async def prepare(
    tmp_path: Path, tree: Tree, wheels: Path, *commands: str, source_builds: bool = False
) -> tuple[Path, list[str]]:
    told: list[str] = []
    installer = Installer(pip_for(wheels), source_builds=source_builds)
    (prefix,) = await prepare_environments(tmp_path / "home", tree, commands or ("python tests.py",), installer, told.append)
    return prefix, told


def run(prefix: Path, program: str) -> str:
    done = subprocess.run([prefix / "bin/python", "-I", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def test_a_new_version_of_a_project_installs_nothing(tmp_path: Path, wheels: Path) -> None:
    text = '[project]\nname = "own"\nversion = "{}"\ndependencies = ["needed"]\nscripts = {{own = "own:main"}}\n'
    make_wheel(wheels, "needed", files={"needed-1.0.dist-info/entry_points.txt": "[console_scripts]\nneeded = needed:main\n"})
    one, told = await prepare(tmp_path, Tree({"pyproject.toml": text.format("1.0")}), wheels)
    assert len(told) == 2
    for wheel in wheels.glob("*.whl"):
        wheel.unlink()
    two, told = await prepare(tmp_path, Tree({"pyproject.toml": text.format("2.0")}), wheels)
    assert (one != two, told) == (True, [EXISTS.format("pyproject.toml")]), "what would be fetched is gone"
    version = "import importlib.metadata as m, needed, sys; print(m.version('own'), sys.prefix, needed.version)"
    assert (run(one, version), run(two, version)) == (f"1.0 {one} 1.0", f"2.0 {two} 1.0")
    (module,) = two.glob("lib/python*/site-packages/needed.py")
    assert module.samefile(one / module.relative_to(two)), "packages take room once"
    for name in ("needed", "own", "pip"):
        script = (two / "bin" / name).read_text()
        assert f"{two}/bin/python" in script
        assert str(one) not in script
    assert (two / "bin" / "needed").stat().st_mode == (one / "bin" / "needed").stat().st_mode
    for prefix in (one, two):
        found = await asyncio.to_thread(read_inventory, prefix, "python")
        assert {"needed", "own", "pip"} <= {each.name for each in found.packages}
        assert (found.unknown, found.altered) == ((), ())


@pytest.mark.long
async def test_test_dependencies_are_installed_and_the_project_is_not(tmp_path: Path, wheels: Path) -> None:
    tree = Tree({"pyproject.toml": PYPROJECT, "src/some/about.py": '__version__ = "2.7"\n', "src/some/__init__.py": ""})
    prefix, told = await prepare(tmp_path, tree, wheels)
    assert told[0] == "preparing the environment from pyproject.toml ..."
    assert run(prefix, "import needed, tested, grouped, included; print(needed.version)") == "1.0"
    said = run(
        prefix,
        "import importlib.metadata as m, importlib.util as u; print(m.version('some-pkg'), u.find_spec('some'), "
        "*(e.value for e in m.entry_points(group='plugins')))",
    )
    assert said == "2.7 None some.plugin"
    assert os.access(prefix / "bin/tell", os.X_OK)


@pytest.mark.long
async def test_two_runs_that_ask_at_once_make_it_once(prepared: Prepared) -> None:
    one, other = prepared.prefixes
    assert one == other
    assert sum(words.startswith("preparing") for words in prepared.notes) == 1
    assert sum(words.startswith("waiting for another run") for words in prepared.notes) == 1


async def test_the_same_files_give_the_same_environment_without_an_installer(prepared: Prepared, tmp_path: Path) -> None:
    again, told = await prepare(prepared.place, LISTED, tmp_path / "no-wheels")
    assert (again, told) == (prepared.prefixes[0], [EXISTS.format("requirements.txt")])


async def test_what_an_environment_was_made_from_stands_in_the_reports(prepared: Prepared) -> None:
    prefix = prepared.prefixes[0]
    sources = json.loads((prefix / PREPARED).read_text())["sources"]
    said = surroundings(prefix=prefix).versions["environment"]
    assert said.startswith("pip ")
    assert sources == {"requirements.txt (packages)": hashlib.sha256(b"starter\nlisted\n").hexdigest()}
    assert said.endswith(f"requirements.txt (packages) sha256:{sources['requirements.txt (packages)']}")


async def test_package_startup_code_never_runs_on_the_host(prepared: Prepared) -> None:
    await prepare(prepared.place, LISTED, prepared.wheels)
    assert list(prepared.prefixes[0].glob("lib/python*/site-packages/starter.pth"))
    assert not prepared.mark.exists()


@pytest.mark.long
async def test_the_environment_has_the_interpreters_own_pip(tmp_path: Path, wheels: Path) -> None:
    prefix, _ = await prepare(tmp_path, Tree({"pyproject.toml": ""}), wheels)
    names = ("pip", "pip3", f"pip3.{sys.version_info.minor}")
    assert all(os.access(prefix / "bin" / name, os.X_OK) for name in names)
    said = subprocess.run([prefix / "bin/pip", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"pip {ensurepip.version()} from {prefix}/lib/")
    found = run(prefix, "import importlib.util as u; print(u.find_spec('setuptools') is not None)")
    assert found == str(sys.version_info < (3, 12))


async def test_pip_is_unpacked_and_compiled_once_for_an_interpreter(tmp_path: Path, wheels: Path) -> None:
    for name in ("one", "two"):
        make_wheel(wheels, name)
        await prepare(tmp_path, Tree({"requirements.txt": name}), wheels)
    found = {
        each.name: folder for folder in (tmp_path / "home/environments").glob("*/") for each in folder.glob("lib/*/*/*.py")
    }
    kept = [each for each in find_caches(tmp_path / "home") if each.source == "python: pip"]
    (base,) = (each.path for each in kept)
    compiled = [each.relative_to(base) for each in base.glob("lib/python*/site-packages/pip/**/*.pyc")]
    assert len(compiled) > 100
    for prefix in (found["one.py"], found["two.py"]):
        assert {(prefix / each).stat().st_mtime_ns for each in compiled} <= {
            (base / each).stat().st_mtime_ns for each in compiled
        }
        assert not any((prefix / each).samefile(base / each) for each in compiled)


def test_an_interpreter_without_ensurepip_is_reported_with_what_to_install() -> None:
    program = f"import sys; sys.modules['ensurepip'] = None; exec({UNPACK!r})"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "python3-venv" in done.stderr


@pytest.mark.long
async def test_a_half_made_environment_is_made_anew(prepared: Prepared) -> None:
    prefix = prepared.prefixes[0]
    (prefix / PREPARED).unlink()
    (prefix / "left").write_text("")
    again, told = await prepare(prepared.place, LISTED, prepared.wheels)
    assert again == prefix
    assert told
    assert not (prefix / "left").exists()
    assert not prepared.mark.exists()


@pytest.mark.long
async def test_a_failing_installer_is_quoted_and_leaves_nothing_behind(tmp_path: Path, wheels: Path) -> None:
    import io
    import tarfile

    proof = tmp_path / "ran"
    with tarfile.open(wheels / "built-1.0.tar.gz", "w:gz") as archive:
        script = f"open({str(proof)!r}, 'w')\nfrom setuptools import setup\nsetup(name='built', version='1.0')\n".encode()
        entry = tarfile.TarInfo("built-1.0/setup.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script))
    with pytest.raises(NotPreparedError) as refused:
        await prepare(tmp_path, Tree({"requirements.txt": "built"}), wheels)
    assert not proof.exists()
    assert refused.value.reason == "environment_not_prepared"
    assert "requirements.txt: " in refused.value.message
    assert "No matching distribution found for built" in refused.value.message
    assert "GATEWRIGHT_SOURCE_BUILDS" in refused.value.message
    made = sorted(each.suffix for each in (tmp_path / "home/environments").iterdir())
    assert made == ["", ".lock", ".lock"], "only the kept pip is complete"


@pytest.mark.long
async def test_an_unavailable_development_tool_does_not_block_the_test_environment(tmp_path: Path, wheels: Path) -> None:
    tree = Tree({"requirements/dev.txt": "-r tests.txt\nabsent==2.0", "requirements/tests.txt": "tested"})

    prefix, _ = await prepare(tmp_path, tree, wheels)

    assert [place.name for place in prefix.glob("lib/python*/site-packages/tested.py")] == ["tested.py"]
    assert "without what is for development" in json.loads((prefix / PREPARED).read_bytes())["tool"]


@pytest.mark.long
async def test_tests_that_cannot_be_had_stop_the_run_with_the_installers_words(tmp_path: Path, wheels: Path) -> None:
    tree = Tree({"requirements/dev.txt": "-r tests.txt", "requirements/tests.txt": "tested==2.0"})

    with pytest.raises(NotPreparedError, match=r"tested==2\.0"):
        await prepare(tmp_path, tree, wheels)


async def test_what_a_build_asks_for_is_installed_where_a_command_builds() -> None:
    tree = Tree({"pyproject.toml": '[build-system]\nrequires = ["setuptools>=77", "./own"]', "uv.lock": ""})

    building = await python_recipe(tree, ("python setup.py build_ext --inplace", "python -m pytest"))
    testing = await python_recipe(tree, ("python -m pytest",))

    assert (building.building, testing.building) == (("setuptools>=77",), ())


async def test_a_commands_undeclared_runner_is_installed() -> None:
    tree = Tree({"requirements.txt": "listed"})
    assert (await python_recipe(tree, ("python -m pytest -q",))).lines == ("listed", "pytest")
    assert (await python_recipe(tree, ("python -m unittest",))).lines == ("listed",)


async def test_a_poetry_lock_gives_versions_and_digests() -> None:
    lock = (
        '[[package]]\nname = "a"\nversion = "1.0"\noptional = false\nfiles = [{file = "a.whl", hash = "sha256:00"}]\n'
        '[[package]]\nname = "w"\nversion = "2"\noptional = false\nmarkers = "sys_platform == \'win32\'"\nfiles = []\n'
        '[[package]]\nname = "o"\nversion = "2"\noptional = true\nfiles = []\n'
    )
    recipe = await python_recipe(Tree({"poetry.lock": lock, "requirements.txt": "other"}), ())
    assert recipe.lines == ("a==1.0 --hash=sha256:00", "w==2 ; sys_platform == 'win32'")


@pytest.mark.long
async def test_a_locked_tool_that_needs_the_project_itself_is_installed_without_it(tmp_path: Path, wheels: Path) -> None:
    metadata = "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\nRequires-Dist: own>=2\n"
    tool = make_wheel(wheels, "tool", files={"tool-1.0.dist-info/METADATA": metadata})
    digest = hashlib.sha256(tool.read_bytes()).hexdigest()
    lock = f'[[package]]\nname = "tool"\nversion = "1.0"\nfiles = [{{file = "{tool.name}", hash = "sha256:{digest}"}}]\n'
    tree = Tree({"poetry.lock": lock, "pyproject.toml": '[project]\nname = "own"\nversion = "3.0"\n'})
    prefix, _ = await prepare(tmp_path, tree, wheels)
    assert run(prefix, "import tool, importlib.metadata as m; print(tool.version, m.version('own'))") == "1.0 3.0"


async def test_a_lock_that_leads_elsewhere_is_refused() -> None:
    lock = '[[package]]\nname = "a"\nversion = "1"\n[package.source]\ntype = "git"\nurl = "https://elsewhere.example"\n'
    with pytest.raises(NotPreparedError):
        await python_recipe(Tree({"poetry.lock": lock}), ())


@pytest.mark.parametrize(
    ("requires", "allowed", "refused"),
    [
        (">=3.10", (3, 11), (3, 9)),
        (">=3.9,<3.12", (3, 11), (3, 12)),
        ("~=3.9", (3, 13), (3, 8)),
        ("==3.11.*", (3, 11), (3, 12)),
        ("!=3.11.*", (3, 12), (3, 11)),
        (">3.10", (3, 11), (3, 10)),
    ],
)
def test_an_interpreter_is_chosen_by_what_the_project_requires(
    requires: str, allowed: tuple[int, int], refused: tuple[int, int]
) -> None:
    assert allows(requires, allowed)
    assert not allows(requires, refused)
