"""Which folders of a tree must come first, for the layouts that projects have and the words that build backends use."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.python.import_roots import import_roots
from tests.ecosystems.python.trees import Tree, tree_of


async def roots_of(tree: Tree) -> tuple[tuple[str, ...], set[str]]:
    found = await import_roots(tree)
    return found.folders, set(found.names)


async def test_a_flat_layout_is_found_without_tests_and_tools() -> None:
    tree = tree_of(
        "pkg/__init__.py", "pkg/core.py", "single.py", "tests/test_core.py", "docs/conf.py", "noxfile.py", "setup.py"
    )
    assert await roots_of(tree) == (("",), {"pkg", "single"})


async def test_a_src_layout_is_found_without_what_lies_beside_it() -> None:
    tree = tree_of("src/pkg/__init__.py", "src/other/__init__.py", "tests/__init__.py", "build_docs.py", "pyproject.toml")
    assert await roots_of(tree) == (("src",), {"pkg", "other"})


async def test_a_src_folder_that_is_a_package_is_a_package() -> None:
    assert await roots_of(tree_of("src/__init__.py", "src/core.py", "tests/test_core.py")) == (("",), {"src"})


async def test_a_namespace_package_is_known_by_what_it_holds() -> None:
    tree = tree_of("src/acme/cloud/store/__init__.py", "src/acme/cloud/one.py", "src/acme/plain/__init__.py")
    assert await roots_of(tree) == (("src",), {"acme.cloud.store", "acme.cloud.one", "acme.plain"})


async def test_a_lib_folder_serves_when_nothing_else_holds_modules() -> None:
    assert await roots_of(tree_of("lib/pkg/__init__.py", "tests/test_a.py")) == (("lib",), {"pkg"})


@pytest.mark.parametrize(
    "words",
    [
        '[tool.setuptools]\npackage-dir = {"" = "code/python"}',
        '[tool.setuptools.packages.find]\nwhere = ["./code/python/"]',
        '[tool.hatch.build.targets.wheel]\npackages = ["code/python/pkg"]',
        '[tool.hatch.build.targets.wheel]\nsources = ["code/python"]',
        '[tool.hatch.build.targets.wheel.sources]\n"code/python" = ""',
        '[tool.poetry]\npackages = [{include = "pkg", from = "code/python"}]',
        '[tool.pdm.build]\npackage-dir = "code/python"',
        '[tool.uv.build-backend]\nmodule-root = "code/python"',
        '[tool.maturin]\npython-source = "code/python"',
        '[tool.scikit-build.wheel]\npackages = ["code/python/pkg"]',
    ],
)
async def test_pyproject_settings_win_over_conventions(words: str) -> None:
    tree = tree_of("code/python/pkg/__init__.py", "src/decoy/__init__.py", "decoy.py", pyproject=words)
    assert await roots_of(tree) == (("code/python",), {"pkg"})


@pytest.mark.parametrize(
    "words",
    ["[options]\npackage_dir =\n    = python\n", "[options]\npackage_dir = =python\n[options.packages.find]\nwhere = python\n"],
)
async def test_setup_cfg_settings_are_used(words: str) -> None:
    assert await roots_of(tree_of("python/pkg/__init__.py", "decoy.py", setup_cfg=words)) == (("python",), {"pkg"})


@pytest.mark.parametrize(
    "words",
    ['setup(package_dir={"": "python"})', "setup(packages=find_packages('python'))", 'find_packages(\n where="python")'],
)
async def test_literal_setup_py_settings_are_used(words: str) -> None:
    assert await roots_of(tree_of("python/pkg/__init__.py", "decoy.py", setup_py=words)) == (("python",), {"pkg"})


async def test_a_renamed_package_must_come_from_the_tree() -> None:
    tree = tree_of("engine/__init__.py", pyproject='[tool.setuptools]\npackage-dir = {"acme" = "engine"}')
    assert (await import_roots(tree)).names == {"acme", "engine"}


async def test_every_project_is_found_and_the_top_one_first() -> None:
    tree = tree_of(
        *("app.py", "pyproject.toml"),
        *("packages/b/src/b/__init__.py", "packages/b/pyproject.toml"),
        *("packages/a/a/__init__.py", "packages/a/setup.py"),
        *("tests/fixtures/stray/stray.py", "tests/fixtures/stray/pyproject.toml"),
    )
    folders, names = await roots_of(tree)
    assert folders == ("", "packages/a", "packages/b/src")
    assert {"app", "a", "b"} <= names
    assert "stray" not in names


async def test_a_folder_never_shadows_the_standard_library() -> None:
    folders, names = await roots_of(tree_of("enum.py", "pkg/__init__.py", "test/__init__.py"))
    assert folders == ()
    assert "pkg" in names


async def test_a_folder_outside_of_the_tree_is_never_a_root() -> None:
    for place in ("..", "../elsewhere", "/usr/lib", "src/../../x"):
        tree = tree_of("pkg/__init__.py", pyproject=f'[tool.setuptools.packages.find]\nwhere = ["{place}"]')
        assert await roots_of(tree) == (("",), {"pkg"})


@pytest.mark.parametrize("content", ["[", "a" + ".a" * 100_000 + " = 1", "x = " + "[" * 50_000, "\ud800", "x = 1\n" * 100_000])
async def test_unreadable_or_costly_settings_have_no_effect(content: str) -> None:
    tree = tree_of("pkg/__init__.py")
    hostile = Tree({**tree.files, "pyproject.toml": content.encode("utf-8", "surrogatepass").decode("latin-1")})
    assert await roots_of(hostile) == (("",), {"pkg"})


async def test_a_tree_without_python_has_no_root() -> None:
    assert await roots_of(tree_of("main.go", "README.md")) == ((), set())
