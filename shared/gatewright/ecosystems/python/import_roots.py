"""The folders of a tree that must precede installed packages, so that the tree's own modules run.

Flat and src layouts, settings of build backends, namespace packages, the members of a repository with several projects.
Pure over names and a few small files; nothing of the tree runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.project_settings import Layout, layout_in_pyproject, layout_in_setup_cfg, layout_in_setup_py

_READERS = {"pyproject.toml": layout_in_pyproject, "setup.cfg": layout_in_setup_cfg, "setup.py": layout_in_setup_py}
#: Projects of one repository that are looked at, the one at the top among them.
_MOST_PROJECTS = 200
#: Maximum depth of a namespace package's first module below a root.
_DEEPEST_NAMESPACE = 5
#: Folders that hold no project of the repository, and no module that is installed from it.
_AUXILIARY = frozenset(
    {
        *("test", "tests", "testing", "doc", "docs", "example", "examples", "sample", "samples", "demo", "demos"),
        *("fixture", "fixtures"),
    }
    | {
        *("template", "templates", "benchmark", "benchmarks", "bench", "script", "scripts", "tool", "tools", "bin"),
        *("build", "dist"),
    }
    | {
        *("ci", "vendor", "third_party", "_vendor", "node_modules", "site-packages", "typings", "stubs", "requirements"),
        *("src", "lib"),
    }
)
#: Folders among them that may still hold projects, or be a package.
_SOURCES = frozenset({"src", "lib"})
#: Modules at the top of a project that are settings of a tool.
_TOOLS = frozenset(["setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer", "manage", "ez_setup", "conf"])
#: Modules of the standard library that no interpreter needs: a common name for a folder of tests.
_HARMLESS = frozenset({"test"})


@dataclass(frozen=True, slots=True)
class ImportRoots:
    """The import roots. ``folders`` are in search order, ``""`` for the top of the tree.

    ``names`` are modules, dotted below a namespace package, that must be imported from the tree.
    """

    folders: tuple[str, ...]
    names: frozenset[str]


async def import_roots(tree: TreeFiles) -> ImportRoots:
    """Return the import roots of ``tree``: the project at the top first, then the others by name."""
    below = _modules_by_folder(tree.paths)
    folders: dict[str, None] = {}
    names: set[str] = set()
    for project in _projects(tree.paths):
        layout = await _layout(tree, project)
        roots = [root for each in layout.roots if (root := _folder_in_tree(project, each)) is not None and root in below]
        for root in roots or _usual_roots(below, project):
            found = set(_module_names(below, root, flat=root == project))
            names |= found
            # Found before the standard library, such a module would be what every program gets in its place.
            if found and not (found & sys.stdlib_module_names) - _HARMLESS:
                folders.setdefault(root)
        names.update(layout.moved)
    return ImportRoots(tuple(folders), frozenset(names))


def hiding_modules(paths: Iterable[str], roots: ImportRoots) -> dict[str, str]:
    """Return top-level modules in ``roots`` and at the top, which commands may find first: name -> path.

    Without those of tests, tools and documents, and without parts of a namespace, which hide nothing.
    """
    found: dict[str, str] = {}
    for path in sorted(paths):
        folder, _, name = path.removesuffix("/__init__.py").rpartition("/")
        module = name.partition(".")[0]
        if not path.endswith((".py", ".so")) or folder not in {"", *roots.folders, *_SOURCES} or not module.isidentifier():
            continue
        if not (folder == "" and module in _AUXILIARY) and module not in _TOOLS and not module.startswith("test_"):
            found.setdefault(module, path)
    return found


async def _layout(tree: TreeFiles, project: str) -> Layout:
    """Return the layout in the project's files, newer kinds first; later ones only add to it."""
    roots: list[str] = []
    moved: list[str] = []
    for name, read in _READERS.items():
        path = f"{project}/{name}".lstrip("/")
        content = await tree.read(path) if path in tree.paths else None
        if content is not None:
            layout = read(content)
            roots += layout.roots
            moved += layout.moved
    return Layout(tuple(dict.fromkeys(roots)), tuple(moved))


def _projects(paths: Iterable[str]) -> list[str]:
    found = {""}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name in _READERS and not (_AUXILIARY - _SOURCES).intersection(folder.split("/")):
            found.add(folder)
    return sorted(found)[:_MOST_PROJECTS]


def _modules_by_folder(paths: Iterable[str]) -> Mapping[str, set[str]]:
    """Names of the Python files and of the folders with any in them, by folder; a folder's name ends in a slash."""
    below: dict[str, set[str]] = {}
    for path in paths:
        if not path.endswith(".py"):
            continue
        folder, _, name = path.rpartition("/")
        while name not in (entries := below.setdefault(folder, set())):
            entries.add(name)
            if not folder:
                break
            folder, _, last = folder.rpartition("/")
            name = f"{last}/"
    return below


def _usual_roots(below: Mapping[str, set[str]], project: str) -> tuple[str, ...]:
    """Return ``src`` if it holds modules and is no module itself, else the project's own folder, else ``lib``."""
    source, library = (f"{project}/{name}".lstrip("/") for name in ("src", "lib"))
    if source in below and "__init__.py" not in below[source]:
        return (source,)
    if (
        next(_module_names(below, project, flat=True), None) is None
        and library in below
        and "__init__.py" not in below[library]
    ):
        return (library,)
    return (project,) if project in below else ()


def _module_names(below: Mapping[str, set[str]], root: str, *, flat: bool) -> Iterator[str]:
    """Yield module names. ``flat``: the root is the project's own folder, which also holds modules that are not installed."""
    for name in sorted(below.get(root, ())):
        module = name.removesuffix("/").removesuffix(".py")
        folder = f"{root}/{module}".lstrip("/")
        if not module.isidentifier() or module in _TOOLS:
            continue
        if not name.endswith("/"):
            if not (flat and module in _AUXILIARY):
                yield module
        # ``src`` with an ``__init__.py`` is a package like another.
        elif not (flat and module in _AUXILIARY) or (module in _SOURCES and "__init__.py" in below[folder]):
            yield from _packages(below, folder, module, _DEEPEST_NAMESPACE)


def _packages(below: Mapping[str, set[str]], folder: str, module: str, depth: int) -> Iterator[str]:
    """The package in ``folder``, or what a namespace package holds."""
    if "__init__.py" in below[folder]:
        yield module
    elif depth:
        for name in sorted(below[folder]):
            inside = name.removesuffix("/").removesuffix(".py")
            if not inside.isidentifier():
                continue
            if name.endswith("/"):
                yield from _packages(below, f"{folder}/{inside}", f"{module}.{inside}", depth - 1)
            else:
                yield f"{module}.{inside}"


def _folder_in_tree(project: str, folder: str) -> str | None:
    """The folder of the tree; None for one that is outside of it."""
    parts: list[str] = project.split("/") if project else []
    if folder.startswith("/"):
        return None
    for part in folder.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
