"""The environment of a Python project: a virtual environment with wheels, and a record of the project itself, not installed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import GitSource, permitted
from gatewright.app.environments.interpreters import Python, usable_python
from gatewright.app.environments.pinned_uv import Make, uv_program
from gatewright.app.environments.pip_phase import UV_VARIABLES, pip_phase
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made, is_whole
from gatewright.app.environments.project_record import ProjectRecord, project_record, write_project_record
from gatewright.app.environments.pull import Registries, pull_phase
from gatewright.app.environments.python_recipe import Recipe, python_recipe
from gatewright.app.environments.requirements import git_source, is_named
from gatewright.app.environments.virtual_environments import link_environment
from gatewright.ecosystems.port import TreeFiles
from gatewright.egress.allowed import IndexedAddresses
from gatewright.sandbox.environments import read_record

#: What uv reads.
_OF_UV = ("pyproject.toml", "uv.lock")


async def python_plan(tree: TreeFiles, commands: Sequence[str], installer: Installer, make: Make) -> EnvironmentPlan:
    """``make`` installs the packages, and a uv where ``uv.lock`` needs one and the host has none.

    Raises NotPreparedError: as ``python_recipe`` does, and when this host has no Python that the project can be run by.
    """
    recipe = await python_recipe(tree, commands)
    python = await asyncio.to_thread(usable_python, recipe.requires_python, installer.search)
    uv = await uv_program(python, installer, make) if recipe.locked else ""
    if uv:
        # The lock's packages for this host decide, not the file: it also has the project's own version.
        recipe = recipe.exported(await _export_lock(tree, uv, python, installer))
    project = await project_record(tree)
    builds = "source builds" if installer.source_builds else "wheels"
    facts = (recipe.deciding_facts, python.version, python.program)
    build = partial(_make, recipe=recipe, python=python, installer=installer, uv=uv)
    packages = EnvironmentPlan("python", recipe.sources, facts, builds, build, recipe.notes)
    if project is None:
        return packages
    # The packages are installed once, for all versions of the project itself.
    build = partial(_make_with_project, packages=packages, make=make, project=project)
    return EnvironmentPlan("python", recipe.sources, (*facts, project), builds, build, silent=True)


async def read_python(tree: TreeFiles, commands: Sequence[str]) -> None:
    """Read every file that ``python_plan`` reads. Raises NotPreparedError."""
    recipe = await python_recipe(tree, commands)
    for path in _OF_UV if recipe.locked else ():
        await tree.read(path)
    await project_record(tree)


async def _make_with_project(prefix: Path, *, packages: EnvironmentPlan, make: Make, project: ProjectRecord) -> Made:
    base = await make(packages)
    record = read_record(base)
    await asyncio.to_thread(link_environment, base, prefix)
    if record is None or not is_whole(base):
        raise NotPreparedError(f"{base} was removed while it was used: run it again")
    await asyncio.to_thread(write_project_record, prefix, project)
    return Made(record.tool, record.mounts, record.results, record.egress)


async def _make(prefix: Path, *, recipe: Recipe, python: Python, installer: Installer, uv: str) -> Made:
    lines = recipe.lines
    # A lock names all packages except the project itself, which its own tools may require.
    git, named = _git_lines(recipe, installer), [line for line in lines if git_source(line) is None]
    complete = recipe.is_lock and all("--hash=" in line for line in named)
    locked = named if complete and not recipe.building else ()
    async with pip_phase(prefix, python, installer, locked, tuple(git.values())) as pip:
        place = pip.phase.scratch
        # pip refuses a repository beside digests. A complete list names all that it needs.
        apart = any("--hash" in line for line in named)
        _write_lines(place / "requirements.txt", named if apart else lines)
        _write_lines(place / "constraints.txt", recipe.constraints)
        wheels = () if installer.source_builds else ("--only-binary", ":all:")
        files = ("-r", "requirements.txt", *(("-c", "constraints.txt") if recipe.constraints else ()))
        files += ("--no-deps",) if complete else ()
        tool, left_out = pip.version, ""
        # uv installs what its lock names, unless something must be built.
        by_uv = uv and complete and not git and not installer.source_builds and pip.may_sync
        try:
            if lines and by_uv:
                tool = await pip.sync(uv, "requirements.txt")
            elif lines:
                await pip.install(*wheels, *files)
        except NotPreparedError as error:
            if not recipe.fewer or not _is_not_to_be_had(error.message):
                advice = "" if installer.source_builds else _advice(error.message)
                raise NotPreparedError(f"{recipe.name}: {error.message}{advice}", code=error.reason) from error
            _write_lines(place / "requirements.txt", recipe.fewer)
            await pip.install(*wheels, *files)
            left_out = ", without what is for development only, which cannot be had"
        if git and apart:
            _write_lines(place / "repositories.txt", tuple(git))
            await pip.install("--no-deps", "-r", "repositories.txt")
        if recipe.building:
            await pip.install(*wheels, *recipe.building)
        _refuse_linked_folders(prefix)
        return Made(tool + left_out, egress=pip.phase.summary())


def _git_lines(recipe: Recipe, installer: Installer) -> dict[str, GitSource]:
    """Return the repositories by line. Raises NotPreparedError for one that is not permitted, or cannot be built."""
    found = {line: permitted(source, installer) for line in recipe.lines if (source := git_source(line)) is not None}
    if found and not installer.source_builds:
        raise NotPreparedError(f"{recipe.name}: {next(iter(found))[:200]} must be built: set GATEWRIGHT_SOURCE_BUILDS=true")
    return found


def _write_lines(place: Path, lines: Sequence[str]) -> None:
    """Write a new file: code of a package that was built here may have left a link at ``place``."""
    place.unlink(missing_ok=True)
    with place.open("x", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _refuse_linked_folders(prefix: Path) -> None:
    """Raise NotPreparedError for a link in the place of a folder of the environment.

    The project's record is written into these folders, outside of the box, and code of a built package could replace them.
    """
    site = "lib/python*/site-packages"
    for place in ("bin", "lib", "lib/python*", site, f"{site}/*.dist-info", f"{site}/*.dist-info/RECORD"):
        for found in prefix.glob(place):
            if found.is_symlink():
                raise NotPreparedError(f"a package replaced {found.relative_to(prefix)} of its environment by a link")


def _is_not_to_be_had(message: str) -> bool:
    """Return whether a registry answered that it has no such version for this host."""
    words = ("No matching distribution", "Could not find a version", "no usable wheels", "no wheels with a matching")
    return any(each in message for each in words)


def _advice(message: str) -> str:
    if not _is_not_to_be_had(message):
        return ""
    return "\n  a package may have no wheel for this host: GATEWRIGHT_SOURCE_BUILDS=true has it built, in the box"


async def _export_lock(tree: TreeFiles, uv: str, python: Python, installer: Installer) -> tuple[str, ...]:
    """Return the content of ``uv.lock`` as requirements with digests; uv sees only the two files, without a network."""
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name) / "box"
        project = place / "project"
        project.mkdir(parents=True)
        for path in _OF_UV:
            (project / path).write_bytes(await tree.read(path) or b"")
        words = ("export", "--frozen", "--offline", "--no-emit-workspace", "--all-groups", "--all-extras", "--no-header")
        outputs = ("--project", str(project), "--output-file", str(place / "exported.txt"))
        async with pull_phase(place, installer, Registries(), IndexedAddresses) as phase:
            own = {**UV_VARIABLES, "UV_PYTHON": python.program}
            await phase.run((uv, *words, *outputs), programs=(uv,), toolchain=python.toolchain, variables=own)
        text = (place / "exported.txt").read_text("utf-8").replace("\\\n", " ")
    lines = tuple(" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in lines:
        if is_named(line) is None and git_source(line) is None:
            raise NotPreparedError(f"uv.lock has what is not a package of a registry: {line[:100]!r}")
    return lines
