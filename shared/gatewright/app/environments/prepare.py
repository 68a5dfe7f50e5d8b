"""``--env auto``: environments for the packages in the baseline's files, each made once and kept in the home folder.

1. the commands decide which ecosystems are needed; an unknown program needs all that the files declare 2. the baseline's
files decide what is installed, and their digest, with the tool, names the folder 3. installers run in a box whose only
connection is the egress gateway; by default no code of a package runs in it 4. a toolchain that the system lacks is mounted
as well. The project itself is never installed.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path, PurePosixPath

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import go_files, go_plans
from gatewright.app.environments.maven_install import maven_plans, pom_files
from gatewright.app.environments.node_install import node_plans, node_recipes
from gatewright.app.environments.pinned_uv import Make
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Note, is_made, made_once
from gatewright.app.environments.python_install import python_plan, read_python
from gatewright.app.environments.python_recipe import declares_python
from gatewright.app.environments.rust_install import rust_files, rust_plans
from gatewright.app.environments.tool import run_tool
from gatewright.ecosystems.port import TreeFiles
from gatewright.patterns import TextPattern
from gatewright.sandbox.environments import Ecosystem
from gatewright.sandbox.programs import find_program

#: A module that a go.mod asks for.
_REQUIRES = TextPattern(r"(?m)^require[ \t(]")
#: The programs of each ecosystem; ``python3.12`` is a python.
_PROGRAMS: dict[Ecosystem, frozenset[str]] = {
    "python": frozenset({"python", "pytest", "py.test", "tox", "nox", "uv", "coverage", "ruff", "mypy", "pyright"}),
    "node": frozenset(
        {"node", "npm", "npx", "yarn", "pnpm", "pnpx", "mocha", "_mocha", "jest", "vitest", "tsc", "eslint", "c8", "nyc"}
    ),
    "rust": frozenset({"cargo", "rustc"}),
    "go": frozenset({"go", "gofmt"}),
    "java": frozenset({"mvn"}),
}


async def prepare_environments(
    home: Path,
    tree: TreeFiles,
    commands: Sequence[str],
    installer: Installer,
    note: Note,
    *,
    first: Callable[[], Awaitable[None]] | None = None,
) -> tuple[Path, ...]:
    """Return the prefixes for ``commands`` on ``tree``; none if no file requests a package. ``note`` receives progress.

    ``first`` is awaited once before anything is installed, and not at all if everything exists already.

    Raises NotPreparedError, also if packages are requested and no lock names them; OSError; and the errors of ``first``.
    """
    make = _Maker(home, note, first, boxed=installer.sandbox != "none")
    plans: list[EnvironmentPlan] = []
    toolchains: list[Path] = []
    for ecosystem in wanted_ecosystems(commands):  # 1
        found = await _plans(ecosystem, tree, commands, installer, make)  # 2
        plans += found
        if found or _is_named(ecosystem, commands):
            toolchains += await toolchain(ecosystem, installer)  # 4
    if not plans and not toolchains:
        if await _asks_for_packages(tree, commands):
            raise NotPreparedError(_nothing(commands))
        note("no file asks for packages: commands see what the system has")
    made = [await make(plan) for plan in plans]  # 3
    return tuple(dict.fromkeys((*made, *toolchains)))


async def read_inputs(tree: TreeFiles, commands: Sequence[str]) -> None:
    """Read every file that ``prepare_environments`` may read; no program of this host is used. Raises NotPreparedError."""
    for ecosystem in wanted_ecosystems(commands):
        match ecosystem:
            case "python":
                await read_python(tree, commands)
            case "node":
                await node_recipes(tree, commands, unlocked=_is_named("node", commands))
            case "rust":
                await rust_files(tree)
            case "go":
                await go_files(tree)
            case "java":
                await pom_files(tree)
    await _asks_for_packages(tree, commands)


class _Maker:
    """Makes what plans describe; ``first`` is awaited before the first of them that is not there."""

    def __init__(self, home: Path, note: Note, first: Callable[[], Awaitable[None]] | None, *, boxed: bool) -> None:
        self._home, self._note, self._first, self._boxed = home, note, first, boxed

    async def __call__(self, plan: EnvironmentPlan) -> Path:
        if self._first is not None and not is_made(self._home, plan):
            first, self._first = self._first, None
            await first()
        if not self._boxed:
            self._boxed = True  # one note is enough
            self._note("the sandbox is switched off: installers run as your user, and only their proxy is the egress gateway")
        return await made_once(self._home, plan, self._note)


async def _plans(
    ecosystem: Ecosystem, tree: TreeFiles, commands: Sequence[str], installer: Installer, make: Make
) -> tuple[EnvironmentPlan, ...]:
    match ecosystem:
        case "python":
            # A command of Python needs an interpreter at least, and often pytest: most hosts have no `python` in /usr.
            wanted = declares_python(tree) or _is_named("python", commands)
            return (await python_plan(tree, commands, installer, make),) if wanted else ()
        case "node":
            # A package.json without a lock applies only if a command is of Node: many Python projects have one too.
            return await node_plans(tree, commands, installer, unlocked=_is_named("node", commands))
        case "rust":
            return await rust_plans(tree, commands, installer)
        case "go":
            return await go_plans(tree, commands, installer)
        case "java":
            return await maven_plans(tree, installer, named=_is_named("java", commands))


def wanted_ecosystems(commands: Sequence[str]) -> list[Ecosystem]:
    """Return the needed ecosystems in the order of their programs on the path."""
    if any(not any(_is_of(ecosystem, each) for ecosystem in _PROGRAMS) for each in commands) or not commands:
        return list(_PROGRAMS)
    return [ecosystem for ecosystem in _PROGRAMS if _is_named(ecosystem, commands)]


async def _asks_for_packages(tree: TreeFiles, commands: Sequence[str]) -> bool:
    """Return whether ``commands`` need packages that no plan provides."""
    module = await tree.read("go.mod") if "go.mod" in tree.paths else None
    return _is_named("go", commands) and _REQUIRES.is_in((module or b"").decode("utf-8", "replace"))


def is_known_program(name: str) -> bool:
    """Return whether ``name`` is a program of a supported ecosystem."""
    return any(_is_of(ecosystem, shlex.quote(name)) for ecosystem in _PROGRAMS)


def _is_named(ecosystem: Ecosystem, commands: Sequence[str]) -> bool:
    return any(_is_of(ecosystem, command) for command in commands)


def _is_of(ecosystem: Ecosystem, command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    name = PurePosixPath(words[0]).name if words else ""
    return name in _PROGRAMS[ecosystem] or (ecosystem == "python" and name.rstrip("0123456789.") == "python")


def _nothing(commands: Sequence[str]) -> str:
    absent = {
        "node": "no package.json that asks for any",
        "rust": "no Cargo.lock with packages of a registry",
        "go": "no go.sum",
    }
    wanted = [each for each in absent if any(_is_named(ecosystem, commands) for ecosystem in _PROGRAMS if ecosystem == each)]
    named = "; ".join(absent[each] for each in wanted)
    advice = "leave --env out where the commands need none, or make an environment and give it with --env DIR"
    return f"no file names the needed packages: {named}; {advice}"


# A toolchain that the user has and the system lacks: rustup's, nvm's, a user's own Go.
_SECONDS = 60.0
#: The program, and what prints the folder that holds its ``bin``.
_ASKED: dict[Ecosystem, tuple[str, tuple[str, ...]]] = {
    "node": ("node", ("node", "-p", "require('path').dirname(require('path').dirname(process.execPath))")),
    "rust": ("cargo", ("rustc", "--print", "sysroot")),
    "go": ("go", ("go", "env", "GOROOT")),
}


async def toolchain(ecosystem: Ecosystem, installer: Installer) -> tuple[Path, ...]:
    """Return the folder to mount, or none: the system has the program, or the user lacks it too. Runs the user's toolchain."""
    if ecosystem not in _ASKED:
        return ()
    program, asked = _ASKED[ecosystem]
    if find_program(program, None) is not None:
        return ()
    found = shutil.which(asked[0], path=installer.search)
    if found is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        variables = {**installer.variables, "GOTOOLCHAIN": "local"}
        try:
            output = await run_tool((found, *asked[1:]), folder=Path(name), environment=variables, seconds=_SECONDS)
        except NotPreparedError:
            return ()
    place = Path(os.fsdecode(output.strip().splitlines()[-1])) if output.strip() else Path()
    usable = place.is_absolute() and await asyncio.to_thread(os.access, place / "bin" / program, os.X_OK)
    return (place.resolve(),) if usable else ()
