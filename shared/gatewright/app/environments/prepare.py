"""``--env auto``: one environment for what the baseline's files ask for, made once and kept in the home folder.

1. the files of the baseline say what is needed  2. its digest, with the tool and the interpreter, names the folder
3. one process at a time makes it  4. only wheels are taken, so that nothing of a package is run on this host
5. its record is written last: a folder without one is made anew. The project itself is not installed, only told of.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import Python, usable_python
from gatewright.app.environments.project_record import project_record, write_project_record
from gatewright.app.environments.python_recipe import Recipe, python_recipe
from gatewright.app.environments.requirements import is_named
from gatewright.app.environments.tool import run_tool
from gatewright.ecosystems.port import TreeFiles
from gatewright.environment_state import MADE, PREPARED

_SECONDS = 1800.0
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Installer:
    """``variables`` are the user's own for pip and uv; ``source_builds``: packages without a wheel may be built here."""

    variables: Mapping[str, str]
    source_builds: bool = False


async def prepare_environment(
    home: Path, tree: TreeFiles, commands: Sequence[str], installer: Installer, note: Callable[[str], None]
) -> Path:
    """The prefix for ``commands`` on ``tree``; ``note`` is told what is going on. Raises NotPreparedError, OSError."""
    recipe = await python_recipe(tree, commands)  # 1
    python = await asyncio.to_thread(usable_python, recipe.requires_python, installer.variables.get("PATH", ""))
    project = await project_record(tree)
    builds = "source builds" if installer.source_builds else "wheels"
    digest = recipe.digest(builds, *map(str, python.version), python.program, repr(project))  # 2
    prefix = home / MADE / digest[:32]
    prefix.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    async with _alone(prefix, note):  # 3
        if not (prefix / PREPARED).is_file():
            note(f"preparing the environment from {recipe.name} ...")
            for words in recipe.notes:
                note(words)
            await asyncio.to_thread(shutil.rmtree, prefix, ignore_errors=True)
            try:
                tool = await _make(prefix, recipe, tree, python, installer)  # 4
                write_project_record(prefix, project)
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, prefix, ignore_errors=True)
                raise
            record = {"tool": tool, "sources": dict(recipe.sources), "installs": builds}
            (prefix / PREPARED).write_text(json.dumps(record), "utf-8")  # 5
            note(f"the environment is ready: {prefix}")
    return prefix


async def _make(prefix: Path, recipe: Recipe, tree: TreeFiles, python: Python, installer: Installer) -> str:
    """The tool and its version."""
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        place = Path(name)
        lines = recipe.lines
        environment = dict(installer.variables)
        if recipe.locked:
            lines = await _exported(place, tree, environment)
        (place / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (place / "constraints.txt").write_text("".join(f"{line}\n" for line in recipe.constraints), "utf-8")
        await run_tool(
            (python.program, "-I", "-m", "venv", str(prefix)), folder=place, environment=environment, seconds=_SECONDS
        )
        version = await asyncio.to_thread(_opened, prefix)
        wheels = () if installer.source_builds else ("--only-binary", ":all:")
        # The environment's own interpreter runs only while nothing is in it: what a package starts with it would run here.
        pip = (str(prefix / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
        files = ("-r", "requirements.txt", *(("-c", "constraints.txt") if recipe.constraints else ()))
        if recipe.is_lock and all("--hash=" in line for line in lines):
            # A lock names all that is needed, but for the project itself, which its own tools may ask for.
            files += ("--no-deps",)
        if lines:
            try:
                await run_tool((*pip, *wheels, *files), folder=place, environment=environment, seconds=_SECONDS)
            except NotPreparedError as error:
                advice = "" if installer.source_builds else _advice(error.message)
                raise NotPreparedError(f"{recipe.name}: {error.message}{advice}") from error
        return version


def _opened(prefix: Path) -> str:
    """Make a fresh environment readable for the account that commands run as; which pip it has."""
    prefix.chmod(0o755)
    found = next((found.name for found in prefix.glob("lib/python*/site-packages/pip-*.dist-info")), "pip")
    return found.removesuffix(".dist-info").replace("-", " ")


def _advice(message: str) -> str:
    if "No matching distribution" not in message and "Could not find a version" not in message:
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
        seconds=_SECONDS,
    )
    text = (place / "exported.txt").read_text("utf-8").replace("\\\n", " ")
    lines = tuple(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for line in lines:
        if is_named(line) is None:
            raise NotPreparedError(f"uv.lock has what is not a package of a registry: {line[:100]!r}")
    return lines


@asynccontextmanager
async def _alone(prefix: Path, note: Callable[[str], None]) -> AsyncIterator[None]:
    """Held by one process at a time; the kernel lets it go with the process."""
    held = os.open(prefix.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    note("waiting for another run that prepares the same environment")
                    told = True
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                break
        yield
    finally:
        os.close(held)
