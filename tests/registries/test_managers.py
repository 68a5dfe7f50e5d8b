"""``--env auto`` with real package managers and registries: what was locked is installed, once, and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.egress.record import parse_egress_log
from gatewright.sandbox.environments import EGRESS_LOG
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import crate, go_proxy
from tests.environments.test_go_modules import FILES as GO_FILES
from tests.environments.test_node import YARN_HOST
from tests.environments.test_pull import left_over
from tests.environments.test_rust import MANIFEST as CARGO_MANIFEST
from tests.environments.test_rust import cargo_for
from tests.environments.wheels import make_wheel
from tests.registries.servers import INSTALLATION, devpi, served_files, verdaccio

NPM = ("npm", "install", "--package-lock-only")
#: A name of this host, for ``resolves``.
HOST = "registry.example"
_GZIP_TIME, _ZIP_TIME = 5, 10
PACKAGE = {"name": "needed", "version": "1.0.0", "main": "index.js", "scripts": {"postinstall": "touch /tmp/installed"}}
TOP = {"name": "top", "version": "1.0.0", "devDependencies": {"needed": "^1.0.0"}}
PYTHON_PROJECT = '[project]\nname = "top"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["needed"]\n'


@dataclass
class Case:
    """A project of one package manager: its baseline, and the user's configuration.

    ``requests`` returns what the registry's own log has since the last call. ``spoil`` changes a byte of the package there.
    ``installed`` is a pattern of its file in the environment.
    """

    tree: Tree
    installer: Installer
    command: str
    installed: str
    requests: Callable[[], list[str]]
    spoil: Callable[[], None]


def spoiled(place: Path, at: int) -> Callable[[], None]:
    """Return what changes one byte of a file, after which it can still be unpacked."""

    def spoil() -> None:
        content = bytearray(place.read_bytes())
        content[at] ^= 1
        place.chmod(0o644)
        place.write_bytes(content)

    return spoil


def locked(folder: Path, files: dict[str, str], argv: list[str], variables: dict[str, str], lock: str) -> Tree:
    """Return the project with the lock that its package manager writes outside of a box."""
    project = folder / "project"
    project.mkdir()
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    subprocess.run(argv, cwd=project, env=variables, check=True, capture_output=True)
    return Tree({**files, lock: (project / lock).read_text()})


@contextmanager
def pip_case(folder: Path, *, uv: bool = False) -> Iterator[Case]:
    wheel = make_wheel(folder / "wheels", "needed")
    with devpi(folder / "devpi", [wheel]) as server:
        index = f"{server.address}/root/dev/+simple/"
        path = f"{INSTALLATION}/python/bin:/usr/bin:/bin"
        own = {"PATH": path, "HOME": str(folder), "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": index, "PIP_RETRIES": "0"}
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        tree = Tree({"requirements.txt": f"needed==1.0 --hash=sha256:{digest}\n"})
        if uv:
            argv = [f"{INSTALLATION}/python/bin/uv", "lock", "--index-url", index]
            tree = locked(folder, {"pyproject.toml": PYTHON_PROJECT}, argv, own, "uv.lock")
        (stored,) = (folder / "devpi").rglob("needed-1.0-*.whl")
        yield Case(
            tree,
            Installer(own),
            "python t.py",
            "lib/python*/site-packages/needed.py",
            server.requests,
            spoiled(stored, _ZIP_TIME),
        )


@contextmanager
def npm_case(folder: Path, argv: Sequence[str] = NPM, lock: str = "package-lock.json") -> Iterator[Case]:
    """``argv`` writes ``lock``."""
    (folder / "needed").mkdir()
    (folder / "needed/package.json").write_text(json.dumps(PACKAGE))
    (folder / "needed/index.js").write_text("module.exports = 'needed'\n")
    with verdaccio(folder / "verdaccio", [folder / "needed"]) as server:
        (folder / ".npmrc").write_text(f"registry={server.address}/\nupdate-notifier=false\nfetch-retries=0\n")
        path = "/usr/bin:/bin" if argv is NPM else f"{INSTALLATION}/node/node_modules/.bin:/usr/bin:/bin"
        own = {"PATH": path, "HOME": str(folder), "CI": "true"}
        program = shutil.which(argv[0], path=path) or argv[0]
        tree = locked(folder, {"package.json": json.dumps(TOP)}, [program, *argv[1:]], own, lock)
        if lock == "yarn.lock":  # the usual form, which the configured registry replaces
            text = tree.files[lock].replace(f"{server.address}/", f"https://{YARN_HOST}/")
            tree = Tree({**tree.files, lock: text})
        stored = folder / "verdaccio/storage/needed/needed-1.0.0.tgz"
        yield Case(
            tree, Installer(own), "node t.js", "**/node_modules/needed/index.js", server.requests, spoiled(stored, _GZIP_TIME)
        )


@contextmanager
def go_case(folder: Path) -> Iterator[Case]:
    proxy = go_proxy(folder / "proxy", "example.org/needed", 'package needed\n\nfunc Word() string { return "needed" }\n')
    go = INSTALLATION / "go/bin/go"
    own = {"PATH": f"{go.parent}:/usr/bin:/bin", "HOME": str(folder), "GOPROXY": proxy, "GOSUMDB": "off"}
    outside = {**own, "GOFLAGS": "-modcacherw -mod=mod", "GOMODCACHE": str(folder / "cache")}
    tree = locked(folder, GO_FILES, [str(go), "mod", "tidy"], outside, "go.sum")
    subprocess.run([go, "mod", "download"], cwd=folder / "project", env=outside, check=True, capture_output=True)
    with served_files(folder / "cache/cache/download") as files:
        (stored,) = (folder / "cache/cache/download").rglob("v1.0.0.zip")
        forged = go_proxy(folder / "forged", "example.org/needed", 'package needed\n\nfunc Word() string { return "forged" }\n')

        def spoil() -> None:
            shutil.copyfile(Path(urlsplit(forged).path, "example.org/needed/@v/v1.0.0.zip"), stored)

        # go asks a loopback address without its proxy.
        installer = Installer({**own, "GOPROXY": files.address.replace("127.0.0.1", HOST)})
        yield Case(tree, installer, "go test ./...", "modules/example.org/needed@v1.0.0/lib.go", files.requests, spoil)


@contextmanager
def cargo_case(folder: Path) -> Iterator[Case]:
    with served_files() as files:
        pages = crate("needed", "pub fn word() {}\n", files.address)
        files.own = {path.lstrip("/"): content for path, content in pages.items()}
        installer = cargo_for(folder, files.address)
        sources = {"Cargo.toml": CARGO_MANIFEST, "src/lib.rs": "pub fn word() { needed::word() }\n"}
        argv = [shutil.which("cargo", path=installer.search) or "cargo", "generate-lockfile"]
        tree = locked(folder, sources, argv, dict(installer.variables), "Cargo.lock")
        files.requests()

        def spoil() -> None:
            files.own["crates/needed/1.0.0/download"] += b"x"

        yield Case(tree, installer, "cargo test", "crates/needed-1.0.0/src/lib.rs", files.requests, spoil)


MANAGERS: dict[str, Callable[[Path], AbstractContextManager[Case]]] = {
    "pip": pip_case,
    "uv": lambda folder: pip_case(folder, uv=True),
    "npm": npm_case,
    "pnpm": lambda folder: npm_case(folder, ("pnpm", "install", "--lockfile-only"), "pnpm-lock.yaml"),
    "yarn": lambda folder: npm_case(folder, ("yarn", "install", "--ignore-scripts"), "yarn.lock"),
    "go": go_case,
    "cargo": cargo_case,
}


@pytest.fixture(autouse=True)
def resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``HOST`` a name of this host, as an entry of a name server would."""
    known = socket.getaddrinfo

    def getaddrinfo(host: str, *more: Any, **named: Any) -> Any:
        return known("127.0.0.1" if host == HOST else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def prepared(folder: Path, case: Case) -> tuple[Path, list[str]]:
    notes: list[str] = []
    made = await prepare_environments(folder / "home", case.tree, (case.command,), case.installer, notes.append)
    return made[0], notes


@pytest.mark.every_case
@pytest.mark.parametrize("name", MANAGERS)
async def test_a_locked_package_is_installed_once_through_the_gateway(tmp_path: Path, name: str) -> None:
    with MANAGERS[name](tmp_path) as case:
        case.requests()
        prefix, _ = await prepared(tmp_path, case)
        assert list(prefix.glob(case.installed))
        assert {each.read_text().strip() for each in prefix.glob("lib/python*/site-packages/needed-*/INSTALLER")} <= {name}
        logged = parse_egress_log((prefix / EGRESS_LOG).read_bytes())
        assert {each.decision for each in logged} == {"allowed"}
        seen = [unquote(each.partition("?")[0]) for each in case.requests()]
        assert sorted(unquote(each.path.partition("?")[0]) for each in logged) == sorted(seen)
        again, notes = await prepared(tmp_path, case)
        assert (again, case.requests()) == (prefix, [])
        assert "0 requests to registries" in notes[0]


@pytest.mark.every_case
@pytest.mark.parametrize("name", MANAGERS)
async def test_a_changed_byte_in_the_registry_is_refused(tmp_path: Path, name: str) -> None:
    with MANAGERS[name](tmp_path) as case:
        case.spoil()
        with pytest.raises(NotPreparedError, match=r"(?i)hash|integrity|checksum"):
            await prepared(tmp_path, case)
    assert {*left_over(tmp_path)} == {".lock"}
