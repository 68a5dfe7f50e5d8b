"""Files, modules and names that the documentation speaks of are there: whoever moves one has to say so in the docs."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from gatewright.resources import schema_directory
from tests.docs.pages import PAGES, code, name_of
from tests.docs.snippets import ROOT, fenced

PACKAGE = ROOT / "shared" / "gatewright"
#: Folders of the repository; a path that begins with another name is some other project's.
TOP = {path.name for path in ROOT.iterdir() if path.is_dir()} - {".git"}
#: The same for paths that begin inside the package, as in ``bus/port.py``: modules only, since other things have slashes, too.
INSIDE = {"gatewright", *(path.name for path in PACKAGE.iterdir() if path.is_dir())}
#: A module by its name alone, or a module of tests without its ending.
_BARE = re.compile(r"\w+\.py|test_\w+")
#: Folders that the page on the architecture writes short; the name of the second is also that of subjects.
SHORT = {"gk/": "services/gatekeeper/", "gw/": "shared/gatewright/"}
#: The decision that ended the other name.
TELLS_HOW_IT_WAS = "0016-services-are-part-of-the-package.md"
#: The decision that tells where modules lay before it.
TELLS_WHERE_IT_WAS = "0019-rooms-for-what-moves-in.md"
#: What stands in examples of other projects.
INVENTED = {"_version.py", "a.py", "noxfile.py", "tests/AddTest.php", "tests/CMakeLists.txt", "tests/typing/names.py"}
_PATH = re.compile(r"[\w.*<>-]+(?:/[\w.*<>-]+)+/?")
_MODULE = re.compile(r"(?<![\w./-])gatewright(?:\.\w+)+")


def paths(text: str) -> Iterator[str]:
    """The words of ``text`` that name files or folders of this repository."""
    for word in text.split():
        spelled = word.partition("::")[0]
        for short, folder in SHORT.items():
            spelled = folder + spelled.removeprefix(short) if spelled.startswith(short) else spelled
        match = _PATH.fullmatch(spelled)
        if match is None or "<" in word:
            continue
        first = match[0].partition("/")[0]
        if first in TOP or (first in INSIDE and match[0].endswith(".py")):
            yield match[0]


def exists(path: str) -> bool:
    """Whether a path, or a pattern of paths, is there: from the top, or inside the package."""
    wanted = (path.rstrip("/"), f"{path}.py") if path.startswith("tests/") else (path.rstrip("/"),)
    return any(any(place.glob(each)) for place in (ROOT, PACKAGE.parent, PACKAGE) for each in wanted)


@cache
def _names() -> frozenset[str]:
    files = [path.name for folder in ("services", "shared", "tests") for path in (ROOT / folder).rglob("*.py")]
    return frozenset({*files, *(name.removesuffix(".py") for name in files if name.startswith("test_"))})


def modules(text: str) -> Iterator[str]:
    """The dotted names in ``text``; names of documents and of what an agent may use look alike and are left out."""
    known = {path.stem.partition(".")[0] for path in schema_directory().glob("*.json")}
    for match in _MODULE.finditer(text):
        if match[0].split(".")[1] not in known and not text[match.end() :].startswith(("<", "*")):
            yield match[0]


def imports(name: str) -> bool:
    """Whether ``name`` is a module, or something that a module has."""
    parent, _, last = name.rpartition(".")
    if not parent:
        return find_spec(name) is not None
    try:
        if find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    return imports(parent) and _has(parent, last)


def _has(parent: str, name: str) -> bool:
    owner, _, attribute = parent.rpartition(".")
    try:
        return hasattr(importlib.import_module(parent), name)
    except ModuleNotFoundError:
        return hasattr(getattr(importlib.import_module(owner), attribute), name)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != TELLS_WHERE_IT_WAS], ids=name_of)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    assert [path for text in code(page) for path in sorted(set(paths(text)) - INVENTED) if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_module_that_a_page_names_without_its_folder_is_somewhere(page: Path) -> None:
    named = {word for text in code(page) for word in text.split() if _BARE.fullmatch(word)}
    assert named - _names() - INVENTED == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_module_that_a_page_names_can_be_imported(page: Path) -> None:
    assert [name for text in code(page) for name in modules(text) if not imports(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_snippet_of_a_page_imports_from_the_package_is_there(page: Path) -> None:
    wanted = [
        f"{node.module}.{alias.name}"
        for language, text in fenced(name_of(page))
        if language == "python"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gatewright")
        for alias in node.names
    ]
    assert [name for name in wanted if not imports(name)] == []


def test_the_services_are_named_as_a_part_of_the_package() -> None:
    outside = re.compile(r"(?<![\w.])services\.(?:gatekeeper|pm|techlead|worker|reviewer|testrunner|<role>)")
    told = {name_of(page): outside.findall(page.read_text("utf-8")) for page in PAGES if page.name != TELLS_HOW_IT_WAS}
    assert {page: found for page, found in told.items() if found} == {}
