"""The environment of a Python project: a virtual environment with wheels, and a record of the project itself, not installed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gatewright.app.environments.bundled_pip import UNPACK
from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import Python, usable_python
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.project_record import ProjectRecord, project_record, write_project_record
from gatewright.app.environments.python_recipe import Recipe, python_recipe
from gatewright.app.environments.requirements import is_named
from gatewright.app.environments.tool import SECONDS, run_tool
from gatewright.ecosystems.port import TreeFiles


async def python_plan(tree: TreeFiles, commands: Sequence[str], installer: Installer) -> EnvironmentPlan:
    """Raises NotPreparedError: as ``python_recipe`` does, and when this host has no Python that the project can be run by."""
    recipe = await python_recipe(tree, commands)
    python = await asyncio.to_thread(usable_python, recipe.requires_python, installer.search)
    project = await project_record(tree)
    builds = "source builds" if installer.source_builds else "wheels"
    facts = (recipe.said, python.version, python.program, project)
    make = partial(_make, recipe=recipe, tree=tree, python=python, installer=installer, project=project)
    return EnvironmentPlan("python", recipe.sources, facts, builds, make, recipe.notes)


async def _make(
    prefix: Path, *, recipe: Recipe, tree: TreeFiles, python: Python, installer: Installer, project: ProjectRecord | None
) -> Made:
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name)
        lines = recipe.lines
        environment = dict(installer.variables)
        if recipe.locked:
            lines = await _exported(place, tree, environment)
        (place / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (place / "constraints.txt").write_text("".join(f"{line}\n" for line in recipe.constraints), "utf-8")
        # The environment's own interpreter runs only while nothing is in it: what a package starts with it would run here.
        own = (str(prefix / "bin" / "python"), "-I")
        (place / "unpack_pip.py").write_text(UNPACK, "utf-8")
        for words in ((python.program, "-I", "-m", "venv", "--without-pip", str(prefix)), (*own, "unpack_pip.py")):
            await run_tool(words, folder=place, environment=environment, seconds=SECONDS)
        version = await asyncio.to_thread(_opened, prefix)
        wheels = () if installer.source_builds else ("--only-binary", ":all:")
        pip = (*own, "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
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
        write_project_record(prefix, project)
        return Made(version + left_out)


def _opened(prefix: Path) -> str:
    """Make a fresh environment readable for the account that commands run as; which pip it has."""
    prefix.chmod(0o755)
    found = next((found.name for found in prefix.glob("lib/python*/site-packages/pip-*.dist-info")), "pip")
    return found.removesuffix(".dist-info").replace("-", " ")


def _is_not_to_be_had(message: str) -> bool:
    """Whether a registry that answers has no such version for this host."""
    return "No matching distribution" in message or "Could not find a version" in message


def _advice(message: str) -> str:
    if not _is_not_to_be_had(message):
        return ""
    return "\n  a package may have no wheel for this host: GATEWRIGHT_SOURCE_BUILDS=true has it built, and its code run here"


async def _exported(place: Path, tree: TreeFiles, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What ``uv.lock`` holds, as requirements with digests; uv looks at nothing but the two files."""
    uv = shutil.which("uv", path=environment.get("PATH"))
    if uv is None:
        raise NotPreparedError("uv.lock can be read by uv only: install it (pip install uv), or give --env DIR")
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
    lines = tuple(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in lines:
        if is_named(line) is None:
            raise NotPreparedError(f"uv.lock has what is not a package of a registry: {line[:100]!r}")
    return lines
