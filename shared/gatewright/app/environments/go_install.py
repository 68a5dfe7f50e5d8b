"""The modules of a Go project: ``go mod download`` of the modules in the baseline's go.sum, mounted for an offline go.

1. go gets only the files that name the needed modules  2. it uses the proxies that the user has configured, and no
repository itself (``direct``); no other version of go is downloaded  3. each module has its digest in go.sum.
"""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.pull import pull_phase
from gatewright.app.environments.registries import go_registries
from gatewright.app.environments.tool import read_file, run_tool, write_files
from gatewright.ecosystems.port import TreeFiles
from gatewright.egress.allowed import IndexedAddresses
from gatewright.foreign_documents import UnreadableDocumentError, read_json

_NAMES = frozenset({"go.mod", "go.sum", "go.work", "go.work.sum"})
#: Go finds modules that are committed by itself.
VENDORED = "vendor/modules.txt"
_VERSION = 1
_MODULES = "modules"
_MOST_FILES = 2000
#: For all of its settings, go would start the compiler of C.
_SETTINGS = ("GOROOT", "GOVERSION", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE")
ADVICE = "where the proxy cannot be reached, commit the modules (`go mod vendor`), which commands then find by themselves"


async def go_plans(tree: TreeFiles, commands: Sequence[str], installer: Installer) -> tuple[EnvironmentPlan, ...]:
    """Return the plans; none if there is nothing to download: no go.sum, or vendored modules. Raises NotPreparedError."""
    del commands
    files = await go_files(tree)
    if not files:
        return ()
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


async def go_files(tree: TreeFiles) -> dict[str, bytes]:
    """Return what decides the modules, go.sum first; nothing if there is nothing to download. Raises NotPreparedError."""
    if not tree.paths & {"go.mod", "go.work"} or VENDORED in tree.paths:
        return {}
    listed = sorted(path for path in tree.paths if posixpath.basename(path) in _NAMES and not _is_hidden(path))
    if not any(path.endswith("sum") for path in listed):
        return {}
    if len(listed) > _MOST_FILES:
        raise NotPreparedError(f"more than {_MOST_FILES} modules of Go in one repository; {ADVICE}")
    return {path: await read_file(tree, path) for path in sorted(listed, key=lambda each: (each != "go.sum", each))}


def _is_hidden(path: str) -> bool:
    """Return whether go itself ignores the path."""
    return any(part in {"vendor", "testdata"} or part.startswith(("_", ".")) for part in path.split("/")[:-1])


async def _make(prefix: Path, *, go: str, files: Mapping[str, bytes], tops: Sequence[str], installer: Installer) -> Made:
    settings = await _settings_of_go(go, installer)
    registries = go_registries(settings, installer)  # 2
    go = str(Path(settings.get("GOROOT", ""), "bin", "go")) if settings.get("GOROOT") else go
    async with pull_phase(prefix, installer, registries, partial(IndexedAddresses, names=_modules(files))) as phase:
        project = phase.scratch / "project"
        await asyncio.to_thread(write_files, project, files)  # 1
        own = {
            "GOMODCACHE": str(prefix / _MODULES),
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
            "GOPATH": str(phase.scratch / "path"),
            "GOCACHE": str(phase.scratch / "cache"),
        }
        run = partial(phase.run, programs=(go,), toolchain=Path(go).parent.parent, variables=own)
        for top in tops:
            try:
                await run((go, "mod", "download"), folder=project / top)  # 3
            except NotPreparedError as error:
                words = f"{posixpath.join(top, 'go.mod')}: {error.message}\n  {ADVICE}"
                raise NotPreparedError(words, code=error.reason) from error
        summary = phase.summary()
        sums = hashlib.sha256()
        for place in sorted((prefix / _MODULES / "cache" / "download").rglob("*.ziphash")):
            sums.update(place.read_bytes() + b"\n")
    return Made(settings.get("GOVERSION", ""), {}, {"modules": sums.hexdigest()}, summary)


def _modules(files: Mapping[str, bytes]) -> list[str]:
    """Return all ``module@version`` that have a digest."""
    listed = (
        line.split() for path in files if path.endswith("sum") for line in files[path].decode("utf-8", "replace").splitlines()
    )
    return ["@".join((words[0], words[1].removesuffix("/go.mod"))) for words in listed if len(words) == 3]


async def _settings_of_go(go: str, installer: Installer) -> dict[str, str]:
    """Return what the user's go is configured with; it sees nothing of the repository."""
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        own = {**installer.variables, "GOTOOLCHAIN": "local", "GOCACHE": str(Path(name) / "cache")}
        output = await run_tool((go, "env", "-json", *_SETTINGS), folder=Path(name), environment=own)
    try:
        return read_json(output, dict[str, str])
    except UnreadableDocumentError as error:
        raise NotPreparedError(f"`go env -json` of your go cannot be read: {error}") from error
