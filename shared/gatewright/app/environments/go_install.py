"""The modules of a Go project: ``go mod download`` of the modules in the baseline's go.sum, mounted for an offline go.

1. go gets only the files that name the needed modules  2. it uses the proxies that the user has configured, and no
repository itself (``direct``) unless the user allows it; no other version of go is downloaded  3. each module has its
digest in go.sum.
"""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import shutil
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.tool import SECONDS, run_tool, write_files
from gatewright.ecosystems.port import TreeFiles

_NAMES = frozenset({"go.mod", "go.sum", "go.work", "go.work.sum"})
_VERSION = 1
_MODULES = "modules"
_MOST_FILES = 2000
ADVICE = "where the proxy cannot be reached, commit the modules (`go mod vendor`), which commands then find by themselves"


async def go_plans(tree: TreeFiles, commands: Sequence[str], installer: Installer) -> tuple[EnvironmentPlan, ...]:
    """Return the plans; none if there is nothing to download: no go.sum, or vendored modules. Raises NotPreparedError."""
    del commands
    if not tree.paths & {"go.mod", "go.work"} or "vendor/modules.txt" in tree.paths:
        return ()
    listed = sorted(path for path in tree.paths if posixpath.basename(path) in _NAMES and not _is_hidden(path))
    if not any(path.endswith("sum") for path in listed):
        return ()
    if len(listed) > _MOST_FILES:
        raise NotPreparedError(f"more than {_MOST_FILES} modules of Go in one repository; {ADVICE}")
    files = {}
    for path in sorted(listed, key=lambda each: (each != "go.sum", each)):
        content = await tree.read(path)
        if content is None:
            raise NotPreparedError(f"{path} is not a file of the repository that can be read")
        files[path] = content
    go = shutil.which("go", path=installer.search)
    if go is None:
        raise NotPreparedError("go.sum is installed by go, which this host has not: install it")
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    tops = [""] if "go.work" in files else [posixpath.dirname(path) for path in files if posixpath.basename(path) == "go.mod"]
    tops = [top for top in tops if top == "" or f"{top}/go.sum" in files]
    return (
        EnvironmentPlan(
            "go", digests, (_VERSION,), "digests of go.sum", partial(_make, go=go, files=files, tops=tops, installer=installer)
        ),
    )


def _is_hidden(path: str) -> bool:
    """Return whether go itself ignores the path."""
    return any(part in {"vendor", "testdata"} or part.startswith(("_", ".")) for part in path.split("/")[:-1])


async def _make(prefix: Path, *, go: str, files: Mapping[str, bytes], tops: Sequence[str], installer: Installer) -> Made:
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        project = Path(name) / "project"
        await asyncio.to_thread(write_files, project, files)  # 1
        own = {
            "GOMODCACHE": str(prefix / _MODULES),
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
            "GOPATH": str(Path(name) / "path"),
        }
        environment = {**installer.variables, **own, "GOCACHE": str(Path(name) / "cache")}
        run = partial(run_tool, environment=environment, seconds=SECONDS)
        version = (await run((go, "env", "GOVERSION"), folder=project)).decode("utf-8", "replace").strip()
        environment["GOPROXY"] = await _proxies(run, go, project, installer)  # 2
        for top in tops:
            try:
                await run((go, "mod", "download"), folder=project / top)  # 3
            except NotPreparedError as error:
                raise NotPreparedError(f"{posixpath.join(top, 'go.mod')}: {error.message}\n  {ADVICE}") from error
        sums = hashlib.sha256()
        for place in sorted((prefix / _MODULES / "cache" / "download").rglob("*.ziphash")):
            sums.update(place.read_bytes() + b"\n")
    return Made(version, {}, {"modules": sums.hexdigest()})


async def _proxies(run: partial[Coroutine[Any, Any, bytes]], go: str, project: Path, installer: Installer) -> str:
    """Return the user's proxies; go's default without ``direct``, which contacts any host that a module's name begins with."""
    output = await run((go, "env", "GOPROXY"), folder=project)
    given = output.decode("utf-8", "replace").strip()
    if "GOPROXY" in installer.variables:
        return given
    kept = [each for each in given.replace("|", ",").split(",") if each and each != "direct"]
    return ",".join(kept) or "off"
