"""What the egress gateway costs: `--env auto` beside the same package manager outside of a box, at the same registry.

Each round installs from empty caches, outside and inside in turns. It needs `make registries`. Run it with
`.venv/bin/python benchmarks/pulls.py`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import operator
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import crate, packed, served
from tests.environments.test_rust import cargo_for
from tests.environments.wheels import make_wheel
from tests.registries.servers import Server, devpi, verdaccio

PACKAGES = 200
ROUNDS = 5
#: Text that does not compress, per package.
BYTES = 20_000


def measure(
    name: str, folder: Path, tree: Tree, command: str, installer: Installer, outside: Mapping[str, Callable[[Path], None]]
) -> None:
    """Print the medians of all ways, and of what the gateway adds to each way outside of a box, in pairs of one round."""

    def inside(place: Path) -> None:
        asyncio.run(prepare_environments(place / "home", tree, (command,), installer, lambda _: None))

    ways = {**outside, "inside": inside}
    walls: dict[str, list[float]] = {each: [] for each in ways}
    for n in range(ROUNDS):
        for way, install in ways.items():
            place = folder / f"round-{n}"
            place.mkdir()
            begun = time.perf_counter()
            install(place)
            walls[way].append(time.perf_counter() - begun)
            shutil.rmtree(place)
    for way, found in walls.items():
        added, ratio = (statistics.median(map(how, walls["inside"], found)) for how in (operator.sub, operator.truediv))
        shown = f"{statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f})"
        print(f"{name}, {PACKAGES} packages, {way}: {shown}; inside {added:+.2f} s, {ratio:.2f} times", flush=True)


def _noise(name: str) -> str:
    return "".join(hashlib.sha256(f"{name}{n}".encode()).hexdigest() for n in range(BYTES // 64))


def npm(folder: Path) -> None:
    with verdaccio(folder / "verdaccio", []) as server:
        names = [f"needed-{n}" for n in range(PACKAGES)]
        for each in names:
            _publish(server, each)
        (folder / ".npmrc").write_text(f"registry={server.address}/\nupdate-notifier=false\n")
        own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "CI": "true"}
        top = {"name": "top", "version": "1.0.0", "dependencies": dict.fromkeys(names, "1.0.0")}
        project = folder / "project"
        project.mkdir()
        (project / "package.json").write_text(json.dumps(top))
        subprocess.run(["npm", "install", "--package-lock-only", "--no-audit"], cwd=project, env=own, check=True)
        files = {each: (project / each).read_text() for each in ("package.json", "package-lock.json")}

        def outside(place: Path) -> None:
            for each, text in files.items():
                (place / each).write_text(text)
            words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(place / "cache")]
            subprocess.run(words, cwd=place, env=own, check=True, capture_output=True)

        measure("npm", folder, Tree(files), "node t.js", Installer(own), {"outside": outside})


def _publish(server: Server, name: str) -> None:
    archive = packed({"package/package.json": json.dumps({"name": name, "version": "1.0.0"}), "package/n.js": _noise(name)})
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    address = f"{server.address}/{name}/-/{name}-1.0.0.tgz"
    version = {"name": name, "version": "1.0.0", "dist": {"integrity": integrity, "tarball": address}}
    attached = {"content_type": "application/octet-stream", "data": base64.b64encode(archive).decode(), "length": len(archive)}
    body = {"_id": name, "name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    server.call("PUT", f"/{name}", {**body, "_attachments": {f"{name}-1.0.0.tgz": attached}}, {})


def pip(folder: Path) -> None:
    wheels = [make_wheel(folder / "wheels", f"needed{n}", files={"n.py": _noise(str(n))}) for n in range(PACKAGES)]
    with devpi(folder / "devpi", wheels) as server:
        index = f"{server.address}/root/dev/+simple/"
        own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": index}
        lines = "".join(
            f"needed{n}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n" for n, wheel in enumerate(wheels)
        )

        def outside(place: Path) -> None:
            install(place, "--without-pip", sys.executable, "-m", "pip", "--python", str(place / "venv/bin/python"))

        def with_own_pip(place: Path) -> None:
            install(place, "--clear", str(place / "venv/bin/python"), "-m", "pip")

        def install(place: Path, option: str, *pip: str) -> None:
            (place / "requirements.txt").write_text(lines)
            subprocess.run([sys.executable, "-m", "venv", option, place / "venv"], check=True)
            words = [*pip, "install", "--no-cache-dir", "-r", "requirements.txt"]
            subprocess.run(words, cwd=place, env=own, check=True, capture_output=True)

        ways = {"outside, the host's pip": outside, "outside, an own pip": with_own_pip}
        measure("pip", folder, Tree({"requirements.txt": lines}), "python t.py", Installer(own), ways)


def cargo(folder: Path) -> None:
    pages: dict[str, bytes] = {}
    with served(pages) as address:
        for n in range(PACKAGES):
            pages.update(crate(f"needed{n}", f"// {_noise(str(n))}\n", address))
        user = cargo_for(folder, address)
        project = folder / "project"
        needed = "".join(f'needed{n} = "1"\n' for n in range(PACKAGES))
        files = {"Cargo.toml": f'[package]\nname = "top"\nversion = "0.1.0"\n[dependencies]\n{needed}', "src/lib.rs": ""}
        (project / "src").mkdir(parents=True)
        for each, text in files.items():
            (project / each).write_text(text)
        subprocess.run(["cargo", "generate-lockfile", "-q"], cwd=project, env=user.variables, check=True)
        files["Cargo.lock"] = (project / "Cargo.lock").read_text()

        def outside(place: Path) -> None:
            (place / "cargo").mkdir()
            shutil.copy(folder / "user/config.toml", place / "cargo")
            words = ["cargo", "vendor", "--locked", "--versioned-dirs", "--respect-source-config", "-q", str(place / "vendor")]
            own = {**user.variables, "CARGO_HOME": str(place / "cargo")}
            subprocess.run(words, cwd=project, env=own, check=True, capture_output=True)

        measure("cargo", folder, Tree(files), "cargo test", user, {"outside": outside})


if __name__ == "__main__":
    for each in (npm, pip, cargo):
        with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as place:
            each(Path(place))
