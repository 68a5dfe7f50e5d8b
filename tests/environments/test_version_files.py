"""The file of a version that only a build would write: ``--env auto`` provides one, so that the project can be imported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.run.change_source import written_files
from gatewright.app.environments.version_files import version_after, version_files
from tests.ecosystems.python.trees import Tree


@pytest.mark.parametrize(
    "settings",
    [
        '[tool.setuptools_scm]\nwrite_to = "src/pkg/_version.py"',
        '[tool.setuptools_scm]\nversion_file = "src/pkg/_version.py"',
        '[tool.hatch]\nbuild.hooks.vcs.version-file = "./src/pkg/_version.py"',
        '[tool.pdm.version]\nwrite_to = "src/pkg/_version.py"',
    ],
)
async def test_a_file_that_the_settings_of_a_build_name_is_found(settings: str) -> None:
    tree = Tree({"pyproject.toml": settings, "src/pkg/__init__.py": ""})
    assert await version_files(tree) == ("src/pkg/_version.py",)
    assert await version_files(Tree({**tree.files, "src/pkg/_version.py": ""})) == ()


@pytest.mark.parametrize(
    "settings",
    [
        '[tool.setuptools_scm]\nwrite_to = "../_version.py"',
        '[tool.setuptools_scm]\nwrite_to = "/etc/_version.py"',
        '[tool.setuptools_scm]\nwrite_to = "src/pkg/VERSION"',
        '[tool.setuptools_scm]\nwrite_to = "elsewhere/_version.py"',
        '[tool.setuptools_scm]\nwrite_to = "src/pkg/_version.py"\nwrite_to_template = "own = 1"',
        "[tool.setuptools_scm]\nwrite_to = 3",
    ],
)
async def test_an_outside_or_custom_version_file_is_left_alone(settings: str) -> None:
    assert await version_files(Tree({"pyproject.toml": settings, "src/pkg/__init__.py": ""})) == ()


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v4.15.0-0-gabc1234\n", "4.15.0"),
        ("4.15.0-12-gabc1234", "4.15.1.dev12"),
        ("pkg-1.2-3-gabc1234", "1.3.dev3"),
        ("2.0rc1-0-gabc1234", "2.0rc1"),
        ("", "0.1.dev0"),
    ],
)
def test_the_version_follows_the_last_tag(described: str, version: str) -> None:
    assert version_after(described) == version


async def test_the_version_file_is_written_from_tags_alone(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("from pkg._version import version\n")
    (tmp_path / "pyproject.toml").write_text('[tool.setuptools_scm]\nwrite_to = "pkg/_version.py"\n')
    (tmp_path / ".gitignore").write_text("_version.py\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first"), ("tag", "v1.4")):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *words], cwd=tmp_path, check=True)
    (tmp_path / "pkg/_version.py").write_text("password = 'of the checkout'\n")
    told: list[str] = []

    ((path, content),) = await written_files(tmp_path, "HEAD", (), told.append)

    names: dict[str, object] = {}
    exec(content, names)  # noqa: S102 - it is ours
    assert (path, names["version"], names["version_tuple"]) == ("pkg/_version.py", "1.4", (1, 4))
    assert "provided with version 1.4" in told[0]
    assert await written_files(tmp_path, "HEAD", ("./pkg/_version.py",), told.append) == ()
