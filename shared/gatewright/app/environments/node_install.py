"""The packages of a Node project: installed by npm, pnpm or yarn from the lock of the baseline, without running their scripts.

A project without a lock, as most libraries are, gets one from npm, with the newest packages that its package.json allows.

1. the registries are those that the user has configured: the installer does not get the repository's own settings, and a
lock that names another host is refused  2. the installer gets the lock and the package.json files, nothing else 3. the
result is checked: no link leads out of the repository  4. each folder of packages is mounted at its own place, so that
links to workspaces lead to the candidate's.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import posixpath
import shutil
import tempfile
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.git_sources import GIT_VARIABLES, git_addresses, permitted
from gatewright.app.environments.node_recipe import (
    ADVICE,
    NPM_LOCKS,
    PUBLIC_HOSTS,
    WRITTEN_LOCK,
    NodeRecipe,
    lock_folders,
    node_recipe,
    unlocked_folders,
    with_lock,
)
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made
from gatewright.app.environments.pull import PullPhase, pull_phase
from gatewright.app.environments.registries import NodeAddresses, NodeRegistries, host_of, node_registries
from gatewright.app.environments.tool import run_tool, write_files
from gatewright.ecosystems.node.commands import runner_folder
from gatewright.ecosystems.node.members import PACKAGES
from gatewright.ecosystems.port import TreeFiles
from gatewright.foreign_documents import UnreadableDocumentError, read_json, table_of
from gatewright.sandbox.environments import CACHES

_FILES = "files"
#: Increase this with every change of the result for the same files.
_VERSION = 2
#: The installer by the name of its lock: program, arguments.
_NPM = ("--ignore-scripts", "--no-audit", "--no-fund", "--include=dev", "--include=optional", "--include=peer")
_NPM_MORE = ("--install-links=false", "--bin-links", "--loglevel=error", "--no-progress")
#: Scripts that make the content of a package from its repository.
_MAKING = frozenset({"prepack", "prepare"})
_NO_GIT = ("--allow-git=none", "--git=/nonexistent")
#: For a project without a lock: npm writes one, and installs nothing. npm does not follow a registry package that refers to
#: an archive elsewhere; an older npm does, and is refused afterwards.
_LOCKED = ("install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--allow-remote=none")
_PNPM = ("install", "--frozen-lockfile", "--ignore-scripts", "--ignore-pnpmfile", "--package-import-method=copy")
#: pnpm from 9.7 on would fetch, and start, the version of itself that package.json names; from 11 on its prefix is another.
_OWN_PROGRAM = {
    "COREPACK_ENABLE_STRICT": "0",
    "COREPACK_ENABLE_PROJECT_SPEC": "0",
    "npm_config_manage_package_manager_versions": "false",
    "pnpm_config_manage_package_manager_versions": "false",
}
_YARN = ("install", "--frozen-lockfile", "--ignore-scripts", "--non-interactive", "--no-progress", "--no-default-rc")


async def node_plans(
    tree: TreeFiles, commands: Sequence[str], installer: Installer, *, unlocked: bool
) -> tuple[EnvironmentPlan, ...]:
    """Return one plan for each recipe. Raises NotPreparedError."""
    return tuple([_plan(each, installer) for each in await node_recipes(tree, commands, unlocked=unlocked)])


async def node_recipes(tree: TreeFiles, commands: Sequence[str], *, unlocked: bool) -> list[NodeRecipe]:
    """Return one recipe for each lock that ``commands`` need; with ``unlocked``, else for a package.json. Raises
    NotPreparedError."""
    folders = lock_folders(tree)
    if folders != ("",):
        started = {await runner_folder(each, tree) for each in commands}
        folders = tuple(each for each in folders if each in started) or folders
        if not folders and unlocked:
            folders = await unlocked_folders(tree, started)
    return [await node_recipe(tree, folder) for folder in folders]


def _plan(recipe: NodeRecipe, installer: Installer) -> EnvironmentPlan:
    program = _program(recipe.lock)
    found = shutil.which(program, path=installer.search)
    if found is None:
        raise NotPreparedError(f"{recipe.named} is installed by {program}, which this host has not: install it, or {ADVICE}")
    for each in recipe.git:
        try:
            permitted(each, installer)
        except NotPreparedError as error:
            raise NotPreparedError(f"{recipe.named}: {error.message}; {ADVICE}") from error
    node = shutil.which("node", path=installer.search)
    # Packages are chosen by the system that they are installed on.
    facts = (_VERSION, program, os.uname().machine, node, recipe.folder)
    installs = "no scripts" if recipe.lock else "newest versions, no scripts"
    notes = () if recipe.lock else (f"no lock beside {recipe.named}: the newest packages that it allows are taken",)
    make = partial(_make, recipe=recipe, program=found, installer=installer)
    return EnvironmentPlan("node", recipe.sources, facts, installs, make, notes)


def _program(lock: str) -> str:
    return "npm" if lock in {"", *NPM_LOCKS} else lock.partition("-")[0].partition(".")[0]


async def _make(prefix: Path, *, recipe: NodeRecipe, program: str, installer: Installer) -> Made:
    top = prefix / _FILES / recipe.folder
    await asyncio.to_thread(write_files, top, recipe.files)
    named = posixpath.join(recipe.folder, recipe.named)
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        user = await node_registries(program, Path(name), installer)
        on_host = partial(run_tool, folder=Path(name), environment=_variables(installer))
        version = [user.version] if user.version else (await on_host((program, "--version"))).decode("utf-8", "replace").split()
    given = git_addresses(recipe.git)
    addresses = partial(NodeAddresses, user=user, lock=recipe.files.get(recipe.lock, b""), given=given)
    async with pull_phase(prefix, installer, user.registries, addresses) as phase:
        node = shutil.which("node", path=installer.search)
        own = {
            **_OWN_PROGRAM,
            "npm_config_cache": str(phase.scratch / "cache"),
            "YARN_CACHE_FOLDER": str(phase.scratch / "cache"),
        }
        programs = (program, *((node,) if node is not None else ()))
        run = partial(phase.run, programs=programs, variables=own, reason_first=True)
        try:
            if not recipe.lock:
                await _install_unlocked(run, program, top, recipe, user.hosts)
            elif recipe.lock in NPM_LOCKS:
                _refuse_unknown(recipe, user.hosts)  # 1
                own |= await _fetch_repositories(phase, recipe)
                more = ("--allow-git=all",) if recipe.git else _NO_GIT
                await run((program, "ci", *_NPM, *_NPM_MORE, *more, "--prefix", str(top)))  # 2
            elif recipe.lock == "pnpm-lock.yaml":
                await run((program, *_PNPM, "--dir", str(top)))
            else:
                await _name_registry(top / recipe.lock, recipe, user)
                await run((program, *_YARN, "--cwd", str(top)))
        except NotPreparedError as error:
            raise NotPreparedError(f"{named}: {error.message}", code=error.reason) from error
        summary = phase.summary()
    mounts = await asyncio.to_thread(_looked_at, prefix, recipe.folder)  # 3, 4
    results = await asyncio.to_thread(_results, prefix, mounts)
    return Made(f"{Path(program).name} {version[-1] if version else ''}".strip(), mounts, results, summary)


async def _install_unlocked(
    run: partial[Coroutine[Any, Any, bytes]], program: str, top: Path, recipe: NodeRecipe, hosts: frozenset[str]
) -> None:
    """Have npm write a lock, look at it, and install what it names.

    Not by ``npm ci``: that wants each package of the lock to be there, also one for another system that the registry has not.
    """
    for words in (_LOCKED, ("install", *_NPM, "--allow-remote=none", "--prefer-offline")):
        await run((program, *words, *_NPM_MORE, *_NO_GIT, "--package-lock=true", "--prefix", str(top)))
        place = top / WRITTEN_LOCK
        if not place.is_file():
            raise NotPreparedError(f"npm wrote no {WRITTEN_LOCK}: make one with `npm install`, and commit it")
        written = with_lock(recipe, WRITTEN_LOCK, await asyncio.to_thread(place.read_bytes))
        _refuse_unknown(written, hosts)
        if written.git:
            raise NotPreparedError(f"{written.git[0].url} is a git repository: commit a {WRITTEN_LOCK} that names its commit")


def _variables(installer: Installer) -> dict[str, str]:
    """Return the user's variables; neither corepack nor pnpm may download a program that the repository names."""
    return {**installer.variables, **_OWN_PROGRAM, "CI": "true"}


async def _name_registry(lock: Path, recipe: NodeRecipe, user: NodeRegistries) -> None:
    """Have the lock name the registry that yarn is configured with: else yarn asks the hosts that a lock names."""
    registry = user.addresses["registry"].rstrip("/")
    _refuse_unknown(recipe, frozenset((host_of(registry),)))
    text = recipe.files[recipe.lock].decode("utf-8", "replace")
    for host in PUBLIC_HOSTS:
        text = text.replace(f'"https://{host}/', f'"{registry}/')
    await asyncio.to_thread(lock.write_text, text, "utf-8")


async def _fetch_repositories(phase: PullPhase, recipe: NodeRecipe) -> dict[str, str]:
    """Fetch each repository at its commits; return the variables by which npm's git reads them from there.

    A variable keeps npm from installing what scripts of a package need. Raises NotPreparedError for a package that such a
    script makes.
    """
    places: dict[str, Path] = {}
    for each in recipe.git:
        git = partial(_run_git, phase, place := places.setdefault(each.url, phase.scratch / f"git-{len(places)}.git"))
        init = ("git", "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(place))
        await phase.run(init, variables=GIT_VARIABLES)
        heads = (f"+{each.commit}:refs/heads/{name}" for name in ("main", f"at-{each.commit}"))  # npm needs a HEAD
        await git("fetch", "--quiet", "--depth=1", "--no-tags", each.url, *heads)
        try:
            scripts = table_of(read_json(await git("show", f"{each.commit}:package.json"), dict[str, Any]), "scripts")
        except UnreadableDocumentError as error:
            raise NotPreparedError(f"the package.json of {each.url} cannot be read: {error}") from error
        if made := sorted(_MAKING & scripts.keys()):
            raise NotPreparedError(f"{each.url} is made by its script `{made[0]}`, which does not run here; {ADVICE}")
    variables = {"GIT_CONFIG_COUNT": str(len(places)), **GIT_VARIABLES} if places else {}
    for n, (url, place) in enumerate(places.items()):
        variables[f"GIT_CONFIG_KEY_{n}"] = f"url.{place.with_suffix('').as_uri()}.insteadOf"
        variables[f"GIT_CONFIG_VALUE_{n}"] = url.removesuffix(".git")
    resolved = [f"git+{each.url}#{each.commit}" for each in recipe.git]
    known = (each.replace("git+https://", scheme) for each in resolved for scheme in ("git+https://", "git+ssh://git@"))
    return {**variables, "_PACOTE_NO_PREPARE_": "\n".join(known)} if resolved else {}


async def _run_git(phase: PullPhase, place: Path, *words: str) -> bytes:
    return await phase.run(("git", *words), folder=place, variables=GIT_VARIABLES)


def _refuse_unknown(recipe: NodeRecipe, configured: frozenset[str]) -> None:
    if unknown := sorted(recipe.hosts - configured):
        advice = f"name it as a registry in your own configuration of npm, or {ADVICE}"
        raise NotPreparedError(
            f"its packages come from {unknown[0]}, which is no registry that npm is configured with: {advice}"
        )


def _looked_at(prefix: Path, folder: str) -> dict[str, str]:
    """Folder below ``prefix`` by place in the repository, of each folder of packages. Raises NotPreparedError."""
    files = prefix / _FILES
    mounts = {}
    for path in _folders_of_packages(files / folder):
        place = posixpath.normpath(path.relative_to(files).as_posix())
        mounts[place] = f"{_FILES}/{place}"
        for name in CACHES:
            (path / name).mkdir(exist_ok=True)
    for place in mounts:
        for each, folders, names in os.walk(files / place):
            for name in (*folders, *names):
                _refuse_link_out(Path(each, name), files)
    return mounts


def _folders_of_packages(top: Path) -> Iterator[Path]:
    """Yield the outermost folders of packages."""
    for each, folders, _ in os.walk(top):
        if PACKAGES in folders:
            folders.remove(PACKAGES)
            yield Path(each, PACKAGES)


def _refuse_link_out(place: Path, files: Path) -> None:
    if place.is_symlink():
        target = Path(os.path.normpath(place.parent / place.readlink()))
        if not target.is_relative_to(files):
            raise NotPreparedError(
                f"a package brought a link out of the repository: {place.relative_to(files)} -> {place.readlink()}"
            )


def _results(prefix: Path, mounts: Mapping[str, str]) -> dict[str, str]:
    """The digests of the lists of what was installed that installers leave behind."""
    found = {}
    for place, inside in sorted(mounts.items()):
        for name in (".package-lock.json", ".modules.yaml", ".yarn-integrity"):
            listing = prefix / inside / name
            if listing.is_file() and not listing.is_symlink():
                found[f"{place}/{name}"] = hashlib.sha256(listing.read_bytes()).hexdigest()
    return found
