"""The crates of a Rust project: ``cargo vendor`` of the crates in the baseline's lock, mounted for an offline cargo.

1. crates of crates.io with their digests are accepted, and commits of git repositories that the operator permits; another
registry is not, unless the repository vendors its crates  2. cargo gets the manifests and the lock, and empty files in place of
sources: its configuration is the user's, never the repository's  3. commands get a CARGO_HOME that replaces all of them by that
folder. A library without a lock gets one from cargo, with the newest crates that its manifests allow.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import posixpath
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import GIT_VARIABLES, GitSource, cargo_git_source, git_addresses, is_permitted
from gatewright.app.environments.plan import PACKAGES, EnvironmentPlan, Installer, Made
from gatewright.app.environments.pull import pull_phase
from gatewright.app.environments.registries import rust_registries
from gatewright.app.environments.tool import read_file, run_tool, write_files
from gatewright.ecosystems.port import TreeFiles
from gatewright.egress.allowed import IndexedAddresses
from gatewright.foreign_documents import UnreadableDocumentError, read_toml

_LOCK = "Cargo.lock"
_MANIFEST = "Cargo.toml"
_VERSION = 2
#: Tables of a manifest that configure builds, and fetch nothing.
_OF_BUILDS = frozenset({"badges", "lints", "metadata", "profile"})
_CONFIGURATIONS = (".cargo/config.toml", ".cargo/config")
#: Names of crates.io in locks, which cargo defines; nothing of ours contacts them.
_GIT_INDEX = "https://github.com/rust-lang/crates.io-index"
_SPARSE_INDEX = ".".join(("index", "crates", "io"))  # noqa: FLY002
_REGISTRIES = frozenset({f"registry+{_GIT_INDEX}", f"sparse+https://{_SPARSE_INDEX}/"})
_MOST_FILES = 20_000
_MOST_TOML_BYTES = 8 << 20
_VENDORED = "crates"
_HOME = "cargo"
ADVICE = "commit the crates (`cargo vendor`, with the lines for .cargo/config.toml that it prints): commands find them there"


async def rust_plans(tree: TreeFiles, commands: Sequence[str], installer: Installer) -> tuple[EnvironmentPlan, ...]:
    """Return the plans; none if there is nothing to fetch: crates by path only, or vendored. Raises NotPreparedError."""
    del commands
    files, lock = await rust_files(tree)
    locked = None if lock is None else _locked_crates(lock, installer)
    if not (any(_asks_for_crates(content) for content in files.values()) if locked is None else locked.names):  # 1
        return ()
    for path, content in files.items():
        _refuse_elsewhere(path, _parse_toml(path, content), installer if lock is not None else None)
    cargo = shutil.which("cargo", path=installer.search)
    if cargo is None:
        raise NotPreparedError(
            f"{_MANIFEST if lock is None else _LOCK} is installed by cargo, which this host has not: install it"
        )
    sources = files if lock is None else {_LOCK: lock, **files}
    digests = {
        _path_words(path): hashlib.sha256(content if path == _LOCK else _what_is_fetched(path, content)).hexdigest()
        for path, content in sources.items()
    }
    stubs = tuple(sorted(path for path in tree.paths if path.endswith(".rs")))
    if len(stubs) + len(files) > _MOST_FILES:
        raise NotPreparedError(f"more than {_MOST_FILES} sources of Rust in one repository; {ADVICE}")
    make = partial(_make, cargo=cargo, files=sources, stubs=stubs, installer=installer)
    notes = (f"no lock beside {_MANIFEST}: the newest crates that it allows are taken",) if lock is None else ()
    return (EnvironmentPlan("rust", digests, (_VERSION,), "newest versions" if lock is None else "offline", make, notes),)


async def _make(prefix: Path, *, cargo: str, files: Mapping[str, bytes], stubs: Sequence[str], installer: Installer) -> Made:
    cargo, version = await _real_cargo(cargo, installer)
    registries, settings = rust_registries(installer)
    locked = _locked_crates(files[_LOCK], installer) if _LOCK in files else _Locked(None)
    given = git_addresses(locked.git)
    async with pull_phase(prefix, installer, registries, partial(IndexedAddresses, names=locked.names, given=given)) as phase:
        project = phase.scratch / "project"
        await asyncio.to_thread(write_files, project, {**dict.fromkeys(stubs, b""), **files})  # 2
        await asyncio.to_thread(write_files, phase.scratch / _HOME, {"config.toml": settings.encode()})
        own = {
            "CARGO_HOME": str(phase.scratch / _HOME),
            "CARGO_TERM_COLOR": "never",
            "CARGO_NET_GIT_FETCH_WITH_CLI": "true" if given else "false",  # the other client of cargo has no proxy
            **GIT_VARIABLES,
            "CARGO_HTTP_MULTIPLEXING": "false",  # the gateway speaks HTTP/1.1
        }
        run = partial(phase.run, programs=(cargo,), toolchain=Path(cargo).parent.parent, folder=project, variables=own)
        named = _LOCK if _LOCK in files else _MANIFEST
        try:
            if _LOCK not in files:
                await run((cargo, "generate-lockfile", "--quiet"))
                _locked_crates(await asyncio.to_thread((project / _LOCK).read_bytes), installer)  # 1
            await run(
                (cargo, "vendor", "--locked", "--versioned-dirs", "--respect-source-config", "--quiet", str(prefix / _VENDORED))
            )
        except NotPreparedError as error:
            words = f"{named}: {error.message}\n  where the registry cannot be reached, {ADVICE}"
            raise NotPreparedError(words, code=error.reason) from error
        summary = phase.summary()
    await asyncio.to_thread(_configure, prefix, locked.git)  # 3
    listing = "".join(f"{place.name}\n" for place in sorted((prefix / _VENDORED).iterdir()))
    results = {"crates": hashlib.sha256(listing.encode()).hexdigest()}
    return Made(f"cargo {version[1] if len(version) > 1 else ''}".strip(), {}, results, summary)


async def _real_cargo(cargo: str, installer: Installer) -> tuple[str, list[str]]:
    """Return the cargo of the toolchain, and the words of its version.

    That of rustup needs the user's home, and would fetch a toolchain.
    """
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        run = partial(run_tool, folder=Path(name), environment=installer.variables)
        rustc = shutil.which("rustc", path=installer.search)
        if rustc is not None:
            real = Path(os.fsdecode((await run((rustc, "--print", "sysroot"))).strip()), "bin", "cargo")
            cargo = str(real) if await asyncio.to_thread(real.is_file) else cargo
        return cargo, (await run((cargo, "--version"))).decode("utf-8", "replace").split()


def _configure(prefix: Path, git: Sequence[GitSource]) -> None:
    (prefix / _HOME).mkdir()
    replaced = 'replace-with = "prepared"'
    lines: list[str] = []
    for number, (url, reference) in enumerate(dict.fromkeys((each.url, each.reference) for each in git)):
        named = [f"{reference[0]} = {json.dumps(reference[1])}"] if reference else []
        lines += (f"[source.git-{number}]", f"git = {json.dumps(url)}", *named, replaced)
    lines += (
        "[source.crates-io]",
        replaced,
        "[source.prepared]",
        f"directory = {json.dumps(str(prefix / _VENDORED))}",
    )
    (prefix / _HOME / "config.toml").write_text("".join(f"{line}\n" for line in (*lines, "[net]", "offline = true")), "utf-8")


async def rust_files(tree: TreeFiles) -> tuple[dict[str, bytes], bytes | None]:
    """Return all manifests, and the lock; nothing if the repository has its crates. Raises NotPreparedError."""
    if _MANIFEST not in tree.paths or await _is_vendored(tree):
        return {}, None
    files = {path: await read_file(tree, path) for path in sorted(tree.paths) if posixpath.basename(path) == _MANIFEST}
    return files, await read_file(tree, _LOCK) if _LOCK in tree.paths else None


async def _is_vendored(tree: TreeFiles) -> bool:
    """Return whether the repository configures the location of its crates."""
    for path in _CONFIGURATIONS:
        if path in tree.paths:
            sources = _parse_toml(path, await read_file(tree, path)).get("source")
            each = sources.get("crates-io") if isinstance(sources, dict) else None
            if isinstance(each, dict) and "replace-with" in each:
                return True
    return False


def _asks_for_crates(manifest: bytes) -> bool:
    """Return whether a manifest has a dependency that is no path."""
    found = _parse_toml(_MANIFEST, manifest)
    tables = [found, *(each for each in _tables(found.get("target")))]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    specs = [spec for table in tables for kind in kinds for spec in _values(table.get(kind))]
    return any(not isinstance(spec, dict) or not ({"path", "workspace"} & spec.keys()) for spec in specs)


def _path_words(path: str) -> str:
    return path if path == _LOCK else f"{path}{PACKAGES}"


def _what_is_fetched(path: str, content: bytes) -> bytes:
    """A manifest without its form and without what only builds go by."""
    found = _parse_toml(path, content)
    inside = [each for each in (found.get("package"), found.get("workspace")) if isinstance(each, dict)]
    for table in (found, *inside):
        for name in _OF_BUILDS:
            table.pop(name, None)
    return json.dumps(found, sort_keys=True, default=str).encode("utf-8", "surrogatepass")


def _refuse_elsewhere(path: str, manifest: Mapping[str, Any], installer: Installer | None) -> None:
    """Refuse other sources: cargo looks for what its lock lacks. With a lock, ``installer`` may permit a git repository."""
    workspace, target, patch = (manifest.get(name) for name in ("workspace", "target", "patch"))
    tables = [manifest, *_tables(target), *([workspace] if isinstance(workspace, dict) else [])]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies", "replace")
    specs = [spec for table in tables for kind in kinds for spec in _tables(table.get(kind))]
    specs += [spec for table in _tables(patch) for spec in _tables(table)]
    for spec in specs:
        led = next((key for key in ("git", "registry", "registry-index") if key in spec), None)
        if led is not None and not (led == "git" and installer is not None and is_permitted(str(spec[led]), installer)):
            requested = f"{led} = {str(spec[led])[:100]!r}"
            raise NotPreparedError(f"{path} requests a crate that is not from crates.io: {requested}; {ADVICE}")


def _values(table: object) -> list[object]:
    return list(table.values()) if isinstance(table, dict) else []


def _tables(table: object) -> list[dict[str, Any]]:
    return [each for each in _values(table) if isinstance(each, dict)]


class _Locked(NamedTuple):
    """The names of the crates to fetch, None for any, and the repositories of those that are not from crates.io."""

    names: list[str] | None
    git: tuple[GitSource, ...] = ()


def _locked_crates(content: bytes, installer: Installer) -> _Locked:
    """Return what a lock names. Raises NotPreparedError for what may not be fetched."""
    packages = _parse_toml(_LOCK, content).get("package")
    found, git = [], []
    for package in packages if isinstance(packages, list) else ():
        source = package.get("source") if isinstance(package, dict) else None
        if source is None:
            continue
        name = str(package.get("name"))[:100]
        try:
            repository = cargo_git_source(str(source), installer)
        except NotPreparedError as error:
            raise NotPreparedError(f"{_LOCK}: {name} does not come from crates.io: {error.message}; {ADVICE}") from error
        if repository is not None:
            git.append(repository)
            found.append(name)
            continue
        if not isinstance(source, str) or source not in _REGISTRIES:
            raise NotPreparedError(f"{_LOCK}: {name} does not come from crates.io: {str(source)[:100]!r}; {ADVICE}")
        if not isinstance(package.get("checksum"), str) and "metadata" not in _parse_toml(_LOCK, content):
            raise NotPreparedError(f"{_LOCK}: {name} has no digest: commit a lock that `cargo update --workspace` has written")
        found.append(name)
    return _Locked(found, tuple(git))


def _parse_toml(path: str, content: bytes) -> dict[str, Any]:
    try:
        return read_toml(content, _MOST_TOML_BYTES)
    except UnreadableDocumentError as error:
        raise NotPreparedError(f"{path} is no TOML that can be read: {error}") from error
