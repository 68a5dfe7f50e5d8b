"""What is shipped: a wheel that takes one name, is the same from a source archive, and works where no checkout is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@localhost")
LEAVES_A_MARK = "import pathlib\npathlib.Path('run-by-mistake').touch()\n"


def build(source: Path, folder: Path, kind: str) -> Path:
    """What hatchling makes of the project at ``source``."""
    argv = (sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder))
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it. What it depends on is looked for where the tests have it.

    A path in a ``.pth`` file is searched, while the ``.pth`` files that lie there are not read: by one of them this checkout is
    installed for the tests, and it is not to be found.
    """
    environment = tmp_path_factory.mktemp("installed")
    venv.create(environment, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"))
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    subprocess.run((*pip, "install", *options, str(wheel)), check=True, capture_output=True)
    (environment / SITE_PACKAGES / "dependencies.pth").write_text(f"{Path(sys.prefix, SITE_PACKAGES)}\n")
    # So is what was compiled of them.
    (environment / "share").mkdir(exist_ok=True)
    (environment / "share" / "gatewright").symlink_to(Path(sys.prefix, "share", "gatewright"))
    return environment


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with one module."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "greeting.py").write_text("GREETING = 'hello'\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, *IDENTITY, "commit", "-q", "-m", "first")
    return folder


def git(folder: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=folder, check=True, capture_output=True, text=True).stdout


def python(environment: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = (str(environment / "bin" / "python"), *words)
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_wheel_takes_no_name_but_its_own(wheel: Path) -> None:
    project, version, *_ = wheel.name.split("-")
    assert {name.partition("/")[0] for name in names(wheel)} == {"gatewright", f"{project}-{version}.dist-info"}


def test_a_wheel_holds_the_reporters_that_run_beside_tests(wheel: Path) -> None:
    reporter = "gatewright/ecosystems/python/reporter"
    wanted = {f"{reporter}/{name}.py" for name in ("__init__", "channel", "pytest_plugin", "unittest_hook")}
    assert wanted <= names(wheel)


def test_a_wheel_holds_every_module_schema_and_policy_of_the_checkout(wheel: Path) -> None:
    places = {"gatewright": "shared/gatewright", "gatewright/services": "services"}
    data = {"gatewright/_schemas": "shared/schemas", "gatewright/_policies": "policies"}
    expected = {
        f"{name}/{path.relative_to(ROOT / place)}"
        for name, place in (places | data).items()
        for path in (ROOT / place).rglob("*")
        if path.suffix in (".py", ".json", ".cel")
    }
    assert expected - names(wheel) == set()
    assert "gatewright/services/worker/__main__.py" in expected


@pytest.mark.long
def test_a_wheel_made_from_the_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    archive = build(ROOT, tmp_path / "sdist", "sdist")
    # Not by the standard library: what it asks for since 3.12, 3.11.2 does not know.
    (tmp_path / "unpacked").mkdir()
    subprocess.run(("tar", "-xf", str(archive), "-C", str(tmp_path / "unpacked")), check=True)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert names(build(unpacked, tmp_path / "wheel", "wheel")) == names(wheel)


@pytest.mark.long
def test_an_installed_wheel_adds_no_package_called_services(installed: Path, tmp_path: Path) -> None:
    found = python(installed, "-c", "import gatewright; print(gatewright.__file__)", cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(installed), "the checkout is not what is tested"
    assert "No module named 'services'" in python(installed, "-c", "import services", cwd=tmp_path).stderr


@pytest.mark.long
def test_a_role_ignores_a_foreign_package_called_services(installed: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "services", tmp_path / "services" / "worker"):
        folder.mkdir()
        (folder / "__init__.py").write_text(LEAVES_A_MARK)
    (tmp_path / "services" / "worker" / "__main__.py").write_text(LEAVES_A_MARK)
    # A level that there is not: the role ends before it looks for a bus, and says so.
    argv = ("env", "GATEWRIGHT_LOG_LEVEL=nonsense", str(installed / "bin" / "python"), "-m", "gatewright.services.worker")
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "GATEWRIGHT_LOG_LEVEL" in ended.stdout + ended.stderr, "our own worker has read its settings"
    assert not (tmp_path / "run-by-mistake").exists()


@pytest.mark.long
def test_a_change_lands_from_an_installed_wheel(installed: Path, project: Path, tmp_path: Path) -> None:
    (project / "services").mkdir()
    (project / "services" / "__init__.py").write_text(LEAVES_A_MARK)
    sed = "sed -i s/hello/bye/ {paths}"
    words = ("run", "say bye", "--allow", "greeting.py", "--exec", sed, "--test", "grep -q bye greeting.py", "--json")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GATEWRIGHT_HOME": str(tmp_path / "home")}
    argv = (str(installed / "bin" / "gatewright"), *words)
    ended = subprocess.run(argv, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    landed = json.loads(ended.stdout.splitlines()[-1])
    assert git(project, "show", f"{landed['commit']}:greeting.py") == "GREETING = 'bye'\n"
    assert not (project / "run-by-mistake").exists()
