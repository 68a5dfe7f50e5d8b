"""What the egress gateway costs: `--env auto` beside the same package manager outside of a box, at the same registry.

Each round installs from empty caches, outside and inside in turns. Registries are processes of their own. It needs
`make registries`. Run it with `.venv/bin/python benchmarks/pulls.py [NAME...]`; names are those of `MANAGERS`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import multiprocessing
import operator
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gatewright.app.environments.node_recipe import PUBLIC_HOSTS
from gatewright.app.environments.plan import Installer, remove_environment
from gatewright.app.environments.prepare import prepare_environments
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import crate, go_proxy, packed
from tests.environments.test_rust import cargo_for
from tests.environments.wheels import make_wheel
from tests.registries.servers import INSTALLATION, Files, Server, devpi, served_files, verdaccio

PACKAGES = int(os.environ.get("PACKAGES", "200"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
#: Text that does not compress, per package.
BYTES = 20_000
NAMES = [f"needed{n}" for n in range(PACKAGES)]
#: A name of this host: go asks a loopback address without its proxy.
HOST = "registry.example"


@dataclass(frozen=True)
class Manager:
    """A locked project. ``outside`` are the ways to install it into an empty folder without a box.

    ``first``: the first environment of an interpreter takes longer, and is measured apart.
    """

    files: Mapping[str, str]
    command: str
    installer: Installer
    outside: Mapping[str, Callable[[Path], None]]
    first: bool = False


def measure(name: str, folder: Path, manager: Manager) -> None:
    """Print the medians of all ways, and of what the gateway adds to each way outside of a box, in pairs of one round."""

    def inside(home: Path) -> list[Path]:
        """Return the environments that it makes, without the kept one of pip."""
        known = {*home.glob("environments/*/")}
        asyncio.run(
            prepare_environments(home, Tree(dict(manager.files)), (manager.command,), manager.installer, lambda _: None)
        )
        made = [each for each in home.glob("environments/*/") if each not in known]
        return [each for each in made if not manager.first or any(each.rglob(f"{NAMES[0]}*"))]

    left: list[Path] = []
    ways: dict[str, Callable[[Path], object]] = {**manager.outside, "inside": lambda _: left.extend(inside(folder / "home"))}
    if manager.first:
        ways["inside, the first of its interpreter"] = lambda place: inside(place / "home")
        left.extend(inside(folder / "home"))
    walls: dict[str, list[float]] = {each: [] for each in ways}
    processors: dict[str, list[float]] = {each: [] for each in ways}
    for n in range(ROUNDS):
        for way, install in ways.items():
            place = folder / f"round-{n}"
            place.mkdir()
            while left:
                remove_environment(left.pop())
            used, begun = _processor_time(), time.perf_counter()
            install(place)
            walls[way].append(time.perf_counter() - begun)
            processors[way].append(_processor_time() - used)
            shutil.rmtree(place)
    for way in ways:
        added, ratio = (statistics.median(map(how, walls["inside"], walls[way])) for how in (operator.sub, operator.truediv))
        difference = "" if way.startswith("inside") else f"; inside {added:+.2f} s, {ratio:.2f} times"
        whose = "of Gatewright without the box" if way.startswith("inside") else "of the installer"
        used = f"{_median(processors[way])} of processor time {whose}"
        print(f"{name}, {PACKAGES} packages, {way}: {_median(walls[way])}{difference}; {used}", flush=True)


def _processor_time() -> float:
    """Return the seconds of this process, where the gateway runs, and of the children that it waited for.

    Registries are still running, and the box has no parent that waits for its programs.
    """
    used = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _median(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f})"


def _noise(name: str) -> str:
    return "".join(hashlib.sha256(f"{name}{n}".encode()).hexdigest() for n in range(BYTES // 64))


def _run(words: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> None:
    done = subprocess.run(words, cwd=folder, env=variables, check=False, capture_output=True)
    assert done.returncode == 0, (words, (done.stdout + done.stderr).decode()[-2000:])


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@contextmanager
def served_apart(fill: Callable[[str], Mapping[str, bytes]], *folders: Path) -> Iterator[str]:
    """Yield the address of a server of files in a process of its own. ``fill`` returns further ones for its address."""

    def serve(pipe: Connection) -> None:
        with served_files(*folders) as files:
            files.own = {path.lstrip("/"): content for path, content in fill(files.address).items()}
            pipe.send(files.address)
            pipe.recv()

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("")
        process.join()


@contextmanager
def node(folder: Path, program: str, lock: str, make_lock: Sequence[str], install: Sequence[str]) -> Iterator[Manager]:
    with verdaccio(folder / "verdaccio", []) as server:
        for each in NAMES:
            _publish(server, each)
        (folder / ".npmrc").write_text(f"registry={server.address}/\nupdate-notifier=false\n")
        (folder / ".yarnrc").write_text(f'registry "{server.address}/"\n')
        path = "/usr/bin:/bin" if program == "npm" else f"{INSTALLATION}/node/node_modules/.bin:/usr/bin:/bin"
        own = {"PATH": path, "HOME": str(folder), "CI": "true"}
        started = shutil.which(program, path=path) or program
        project = folder / "project"
        _write(
            project,
            {"package.json": json.dumps({"name": "top", "version": "1.0.0", "dependencies": dict.fromkeys(NAMES, "1.0.0")})},
        )
        _run([started, *make_lock], project, own)
        files = {each: (project / each).read_text() for each in ("package.json", lock)}

        def outside(place: Path) -> None:
            _write(place, files)
            caches = {
                "npm_config_cache": f"{place}/cache",
                "YARN_CACHE_FOLDER": f"{place}/cache",
                "XDG_DATA_HOME": f"{place}/data",
            }
            _run([started, *install], place, {**own, **caches, "XDG_CACHE_HOME": f"{place}/cache"})

        # A lock of yarn names public registries, in whose place Gatewright puts the user's.
        public = {**files, lock: files[lock].replace(server.address, f"https://{PUBLIC_HOSTS[0]}")}
        yield Manager(public if program == "yarn" else files, "node t.js", Installer(own), {"outside": outside})


def npm(folder: Path) -> AbstractContextManager[Manager]:
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund")
    return node(folder, "npm", "package-lock.json", ("install", "--package-lock-only", "--no-audit"), ("ci", *quiet))


def pnpm(folder: Path) -> AbstractContextManager[Manager]:
    install = ("install", "--frozen-lockfile", "--ignore-scripts", "--package-import-method=copy")
    return node(folder, "pnpm", "pnpm-lock.yaml", ("install", "--lockfile-only"), install)


def yarn(folder: Path) -> AbstractContextManager[Manager]:
    install = ("install", "--ignore-scripts", "--non-interactive", "--no-progress")
    return node(folder, "yarn", "yarn.lock", install, (*install, "--frozen-lockfile"))


def _publish(server: Server, name: str) -> None:
    archive = packed({"package/package.json": json.dumps({"name": name, "version": "1.0.0"}), "package/n.js": _noise(name)})
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    shasum = hashlib.sha1(archive, usedforsecurity=False).hexdigest()
    address = f"{server.address}/{name}/-/{name}-1.0.0.tgz"
    version = {"name": name, "version": "1.0.0", "dist": {"integrity": integrity, "shasum": shasum, "tarball": address}}
    attached = {"content_type": "application/octet-stream", "data": base64.b64encode(archive).decode(), "length": len(archive)}
    body = {"_id": name, "name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    server.call("PUT", f"/{name}", {**body, "_attachments": {f"{name}-1.0.0.tgz": attached}}, {})


@contextmanager
def wheels_served(folder: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the user's variables, and the packages as requirements with digests."""
    wheels = [make_wheel(folder / "wheels", name, files={f"{name}_n.py": _noise(name)}) for name in NAMES]
    with devpi(folder / "devpi", wheels) as server:
        index = f"{server.address}/root/dev/+simple/"
        own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": index}
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        yield own, "".join(f"{name}==1.0 --hash=sha256:{digest}\n" for name, digest in zip(NAMES, digests, strict=True))


@contextmanager
def pip(folder: Path) -> Iterator[Manager]:
    with wheels_served(folder) as (own, lines):

        def outside(place: Path) -> None:
            install(place, "--without-pip", sys.executable, "-m", "pip", "--python", str(place / "venv/bin/python"))

        def with_own_pip(place: Path) -> None:
            install(place, "--clear", str(place / "venv/bin/python"), "-m", "pip")

        def install(place: Path, option: str, *pip: str) -> None:
            _write(place, {"requirements.txt": lines})
            _run([sys.executable, "-m", "venv", option, place / "venv"], place, own)
            _run([*pip, "install", "--no-cache-dir", "-r", "requirements.txt"], place, own)

        ways = {"outside, the host's pip": outside, "outside, an own pip": with_own_pip}
        yield Manager({"requirements.txt": lines}, "python t.py", Installer(own), ways, first=True)


@contextmanager
def uv(folder: Path) -> Iterator[Manager]:
    program = str(INSTALLATION / "python/bin/uv")
    with wheels_served(folder) as (variables, _):
        own = {**variables, "PATH": f"{Path(program).parent}:/usr/bin:/bin", "UV_PYTHON": sys.executable}
        needed = json.dumps(NAMES)
        text = f'[project]\nname = "top"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = {needed}\n'
        _write(folder / "project", {"pyproject.toml": text})
        _run([program, "lock", "--index-url", own["PIP_INDEX_URL"]], folder / "project", own)
        files = {each: (folder / "project" / each).read_text() for each in ("pyproject.toml", "uv.lock")}

        def outside(place: Path) -> None:
            _write(place, files)
            words = [program, "sync", "--frozen", "--no-install-project", "--compile-bytecode"]
            _run(words, place, {**own, "UV_CACHE_DIR": f"{place}/cache"})

        yield Manager(files, "python t.py", Installer(own), {"outside, uv sync": outside}, first=True)


@contextmanager
def cargo(folder: Path) -> Iterator[Manager]:
    def pages(address: str) -> dict[str, bytes]:
        return {path: page for name in NAMES for path, page in crate(name, f"// {_noise(name)}\n", address).items()}

    with served_apart(pages) as address:
        user = cargo_for(folder, address)
        project = folder / "project"
        needed = "".join(f'{name} = "1"\n' for name in NAMES)
        files = {"Cargo.toml": f'[package]\nname = "top"\nversion = "0.1.0"\n[dependencies]\n{needed}', "src/lib.rs": ""}
        _write(project, files)
        _run(["cargo", "generate-lockfile", "-q"], project, user.variables)
        files["Cargo.lock"] = (project / "Cargo.lock").read_text()

        def outside(place: Path) -> None:
            (place / "cargo").mkdir()
            shutil.copy(folder / "user/config.toml", place / "cargo")
            words = ["cargo", "vendor", "--locked", "--versioned-dirs", "--respect-source-config", "-q", place / "vendor"]
            _run(words, project, {**user.variables, "CARGO_HOME": f"{place}/cargo"})

        yield Manager(files, "cargo test", user, {"outside": outside})


@contextmanager
def go(folder: Path) -> Iterator[Manager]:
    program, modules = INSTALLATION / "go/bin/go", [f"{HOST}/{name}" for name in NAMES]
    for each in modules:
        go_proxy(folder / "proxy", each, f"package needed\n\n// {_noise(each)}\n")
    with served_apart(lambda _: {}, folder / "proxy") as address:
        _resolve_host()
        own = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(folder), "GOSUMDB": "off", "GOPROXY": address}
        project = folder / "project"
        needed = "".join(f"\t{each} v1.0.0\n" for each in modules)
        imported = "".join(f'\t_ "{each}"\n' for each in modules)
        _write(
            project,
            {"go.mod": f"module top\n\ngo 1.19\n\nrequire (\n{needed})\n", "t.go": f"package top\n\nimport (\n{imported})\n"},
        )
        _run([program, "mod", "tidy"], project, {**own, "GOFLAGS": "-modcacherw", "GOMODCACHE": f"{folder}/modules"})
        files = {each: (project / each).read_text() for each in ("go.mod", "go.sum", "t.go")}

        def outside(place: Path) -> None:
            variables = {**own, "GOFLAGS": "-modcacherw", "GOMODCACHE": f"{place}/modules", "GOCACHE": f"{place}/cache"}
            _run([program, "mod", "download"], project, variables)

        installer = Installer({**own, "GOPROXY": address.replace("127.0.0.1", HOST)})
        yield Manager(files, "go test ./...", installer, {"outside": outside})


def _resolve_host() -> None:
    """Make ``HOST`` a name of this host, as an entry of a name server would."""
    known = socket.getaddrinfo

    def getaddrinfo(host: Any, *more: Any, **named: Any) -> Any:
        return known("127.0.0.1" if host == HOST else host, *more, **named)

    socket.getaddrinfo = getaddrinfo


@contextmanager
def maven(folder: Path) -> Iterator[Manager]:
    own_files = Files((INSTALLATION / "debian/usr/share/maven-repo", Path("/usr/share/maven-repo")))
    resolver = "org.apache.maven.plugins:maven-dependency-plugin:3.5.0"
    head = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'

    def artifact(name: str) -> str:
        return f"<groupId>demo</groupId><artifactId>{name}</artifactId><version>1</version>"

    def pages(_: str) -> dict[str, bytes]:
        poms = {f"demo/{name}/1/{name}-1.pom": f"{head}{artifact(name)}</project>".encode() for name in NAMES}
        return poms | {f"demo/{name}/1/{name}-1.jar": packed({"n": _noise(name)}) for name in NAMES}

    with served_apart(pages, *own_files.folders) as address:
        mirror = f"<mirror><id>own</id><mirrorOf>*</mirrorOf><url>{address}/</url></mirror>"
        _write(folder / "user", {".m2/settings.xml": f"<settings><mirrors>{mirror}</mirrors></settings>"})
        own = {"PATH": "/usr/bin:/bin", "HOME": f"{folder}/user", "MAVEN_OPTS": f"-Duser.home={folder}/user"}
        needed = "".join(f"<dependency>{artifact(name)}</dependency>" for name in NAMES)
        files = {"pom.xml": f"{head}{artifact('top')}<dependencies>{needed}</dependencies></project>"}

        def outside(place: Path) -> None:
            _write(place, files)
            left_out = "-DexcludeArtifactIds=maven-install-plugin,maven-deploy-plugin,maven-site-plugin"
            goals = (f"{resolver}:resolve", f"{resolver}:resolve-plugins")
            _run(["mvn", "-q", "-B", "-C", left_out, f"-Dmaven.repo.local={place}/repository", *goals], place, own)

        yield Manager(files, "mvn -B test", Installer(own), {"outside": outside})


MANAGERS: dict[str, Callable[[Path], AbstractContextManager[Manager]]] = {
    each.__name__: each for each in (npm, pnpm, yarn, pip, uv, cargo, go, maven)
}

if __name__ == "__main__":
    for each in sys.argv[1:] or MANAGERS:
        with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as place, MANAGERS[each](Path(place)) as manager:
            measure(each, Path(place), manager)
