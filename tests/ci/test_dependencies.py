"""Every package that the product imports is declared, and brought by the extra of the process that imports it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions

from tests.reason_codes import ROOT, sources

#: Which processes run the modules below a place, each by the extras that it is installed with. All other modules are the
#: library, which has no extra. The first place that fits counts.
PROCESSES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **{f"services/{role}": ((role,),) for role in ("pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper")},
    "shared/gatewright/app/cli/hosts": (("cli", "hosts"),),
    "shared/gatewright/app/cli/people/agent_server.py": (("cli", "console"),),
    "shared/gatewright/app/console": (("cli", "console"),),
    "shared/gatewright/app/forge": (("cli", "console"),),
    "shared/gatewright/app/top": (("cli", "top"),),
    "shared/gatewright/app": (("cli",),),
    "shared/gatewright/ecosystems/node/recorded_sources.py": (("testrunner",),),
    "shared/gatewright/ecosystems/test_syntax": (("reviewer",), ("testrunner",)),
    "shared/gatewright/environment_inventory": (("testrunner",),),
    "shared/gatewright/evidence/store/s3.py": (("stores",),),
    "shared/gatewright/git/library_git.py": (("cli",),),
    "shared/gatewright/egress": (("run",), ("worker",)),
    "shared/gatewright/research/get_client.py": (("worker",),),
    "shared/gatewright/models/gateway": (("pm",), ("techlead",), ("worker",), ("reviewer",)),
    "shared/gatewright/policy_files.py": (("keyring",),),
    "shared/gatewright/sandbox/binary.py": (("worker",), ("testrunner",)),
    "shared/gatewright/secrets/kingfisher.py": (("worker",), ("testrunner",), ("gatekeeper",)),
    "shared/gatewright/structured": (("pm",), ("techlead",), ("reviewer",)),
    "shared/gatewright/syntax_trees.py": (("reviewer",), ("testrunner",)),
    "shared/gatewright/telemetry/otlp.py": (("traces",),),
}
#: The distributions that are installed, by the modules that they hold.
INSTALLED = packages_distributions()
#: Modules that run inside the environment of a project under test, and import what that has.
FOREIGN = "shared/gatewright/ecosystems/python/reporter"


@cache
def declared() -> dict[str, frozenset[str]]:
    """By extra, and ``""`` for the library: the names of the packages that it brings, as far as they are declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: frozenset(_brought(extra, lists)) for extra in lists}


def _brought(extra: str, lists: Mapping[str, list[str]]) -> Iterator[str]:
    for line in lists[extra]:
        name, extras = re.match(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?", line).groups()  # type: ignore[union-attr]
        if name == "gatewright":
            for each in extras.split(","):
                yield from _brought(each, lists)
        else:
            yield _plain(name)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(module: ast.Module) -> Iterator[str]:
    """The names that a module imports, also by a literal name."""
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]
            ):
                yield name


def packages_of(name: str) -> set[str]:
    """The distributions that may hold a module; one that is not installed is called like its package."""
    top = name.partition(".")[0]
    return {_plain(each) for each in INSTALLED.get(top, [top])}


def undeclared() -> Iterator[str]:
    for path, module in sources().items():
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(FOREIGN):
            continue
        processes = next((extras for prefix, extras in PROCESSES.items() if place.startswith(prefix)), ((),))
        for name in sorted(set(imported(module))):
            if name.partition(".")[0] in sys.stdlib_module_names | {"gatewright"}:
                continue
            for extras in processes:
                brought = declared()[""].union(*(declared()[extra] for extra in extras))
                if not packages_of(name) & brought:
                    yield f"{place}: {name} is not declared for {' and '.join(extras) or 'the library'}"


def test_every_import_is_declared_for_the_process_that_makes_it() -> None:
    assert list(undeclared()) == []


def test_every_place_is_there() -> None:
    assert [place for place in PROCESSES if not (ROOT / place).exists()] == []


def test_a_package_that_is_not_declared_is_seen() -> None:
    assert packages_of("yaml") == {"pyyaml"}
    assert list(imported(ast.parse("import a.b\nfrom c import d\nfrom . import e\nimport_module('f')"))) == ["a.b", "c", "f"]
