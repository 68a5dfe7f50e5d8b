"""The environment of a Python project: a virtual environment with wheels, and a record of the project itself, not installed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gatewright.app.environments.bundled_pip import fresh_environment
from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import Python, usable_python
from gatewright.app.environments.linked_copy import link_environment
from gatewright.app.environments.pinned_uv import Make, uv_program
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made, is_whole
from gatewright.app.environments.project_record import ProjectRecord, project_record, write_project_record
from gatewright.app.environments.python_recipe import Recipe, python_recipe
from gatewright.app.environments.requirements import is_named
from gatewright.app.environments.tool import SECONDS, run_tool
from gatewright.ecosystems.port import TreeFiles
from gatewright.sandbox.environments import read_record


async def python_plan(tree: TreeFiles, commands: Sequence[str], installer: Installer, make: Make) -> EnvironmentPlan:
    """``make`` installs the packages, and a uv where ``uv.lock`` needs one and the host has none.

    Raises NotPreparedError: as ``python_recipe`` does, and when this host has no Python that the project can be run by.
    """
    recipe = await python_recipe(tree, commands)
    python = await asyncio.to_thread(usable_python, recipe.requires_python, installer.search)
    if recipe.locked:
        # What a lock holds for this host decides, not the file: it names the project's own version, too.
        exported = await _export_lock(tree, await uv_program(python, installer, make), installer.variables)
        recipe = recipe.exported(exported)
    project = await project_record(tree)
    builds = "source builds" if installer.source_builds else "wheels"
    facts = (recipe.said, python.version, python.program)
    build = partial(_make, recipe=recipe, python=python, installer=installer)
    packages = EnvironmentPlan("python", recipe.sources, facts, builds, build, recipe.notes)
    if project is None:
        return packages
    # The packages are installed once, whatever the project's own version is.
    build = partial(_make_with_project, packages=packages, make=make, project=project)
    return EnvironmentPlan("python", recipe.sources, (*facts, project), builds, build, silent=True)


async def _make_with_project(prefix: Path, *, packages: EnvironmentPlan, make: Make, project: ProjectRecord) -> Made:
    base = await make(packages)
    record = read_record(base)
    await asyncio.to_thread(link_environment, base, prefix)
    if record is None or not is_whole(base):
        raise NotPreparedError(f"{base} was removed while it was used: run it again")
    await asyncio.to_thread(write_project_record, prefix, project)
    return Made(record.tool, record.mounts, record.results)


async def _make(prefix: Path, *, recipe: Recipe, python: Python, installer: Installer) -> Made:
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name)
        lines = recipe.lines
        environment = dict(installer.variables)
        (place / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (place / "constraints.txt").write_text("".join(f"{line}\n" for line in recipe.constraints), "utf-8")
        pip, version = await fresh_environment(prefix, python.program, place, environment)
        wheels = () if installer.source_builds else ("--only-binary", ":all:")
        files = ("-r", "requirements.txt", *(("-c", "constraints.txt") if recipe.constraints else ()))
        if recipe.is_lock and all("--hash=" in line for line in lines):
            # A lock names all that is needed, but for the project itself, which its own tools may ask for.
            files += ("--no-deps",)
        left_out = ""
        try:
            if lines:
                await run_tool((*pip, *wheels, *files), folder=place, environment=environment, seconds=SECONDS)
        except NotPreparedError as error:
            if not recipe.fewer or not _is_not_to_be_had(error.message):
                advice = "" if installer.source_builds else _advice(error.message)
                raise NotPreparedError(f"{recipe.name}: {error.message}{advice}") from error
            (place / "requirements.txt").write_text("".join(f"{line}\n" for line in recipe.fewer), "utf-8")
            await run_tool((*pip, *wheels, *files), folder=place, environment=environment, seconds=SECONDS)
            left_out = ", without what is for development only, which cannot be had"
        if recipe.building:
            await run_tool((*pip, *wheels, *recipe.building), folder=place, environment=environment, seconds=SECONDS)
        return Made(version + left_out)


def _is_not_to_be_had(message: str) -> bool:
    """Whether a registry that answers has no such version for this host."""
    return "No matching distribution" in message or "Could not find a version" in message


def _advice(message: str) -> str:
    if not _is_not_to_be_had(message):
        return ""
    return "\n  a package may have no wheel for this host: GATEWRIGHT_SOURCE_BUILDS=true has it built, and its code run here"


async def _export_lock(tree: TreeFiles, uv: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What ``uv.lock`` holds, as requirements with digests; uv sees nothing but the two files."""
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name)
        project = place / "project"
        project.mkdir()
        for path in ("pyproject.toml", "uv.lock"):
            (project / path).write_bytes(await tree.read(path) or b"")
        words = ("export", "--frozen", "--offline", "--no-emit-workspace", "--all-groups", "--all-extras", "--no-header")
        await run_tool(
            (uv, *words, "--project", str(project), "--output-file", str(place / "exported.txt")),
            folder=place,
            environment=environment,
            seconds=SECONDS,
        )
        text = (place / "exported.txt").read_text("utf-8").replace("\\\n", " ")
    lines = tuple(" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in lines:
        if is_named(line) is None:
            raise NotPreparedError(f"uv.lock has what is not a package of a registry: {line[:100]!r}")
    return lines
