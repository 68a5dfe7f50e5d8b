"""The system as an operator has it: a clean checkout, an `.env` file, `docker compose up --build --wait`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testcontainers.compose import DockerCompose

from gatewright.bus.identities import BusAddress
from gatewright.client.sync import SyncClient
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Executor, Repository, Sharding
from tests.e2e.conftest import FILES

ROOT = Path(__file__).parents[2]
BASE = "docker-compose.yml"
CLUSTER = "deploy/compose/cluster.yml"
MODELS = "deploy/compose/models.yml"
MONITORING = "deploy/compose/monitoring.yml"
SERVICES = ("gatekeeper", "pm", "techlead", "worker", "reviewer", "testrunner")
#: The image's own account, unless the tests run as somebody whose files the services can own.
UID = os.getuid() or 10001
SECONDS = 120.0


@dataclass(frozen=True)
class Deployment:
    """A running system. ``repositories`` is what the services see as ``/repositories``; ``ports`` those of the NATS servers.

    ``console``: the port of the live page.
    """

    compose: DockerCompose
    folder: Path
    ports: tuple[int, ...]
    console: int

    @property
    def repositories(self) -> Path:
        return self.folder / "repositories"

    def do(self, *words: str, seconds: float = SECONDS, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`docker compose ...` to its end."""
        argv = [*self.compose.docker_compose_command(), *words]
        done = subprocess.run(argv, cwd=str(self.compose.context), capture_output=True, text=True, check=False, timeout=seconds)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def cli(self, *words: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """`gatewright ...` in a container of its own."""
        return self.do("run", "--rm", "-T", "cli", *words, seconds=seconds, check=False)

    def order(self, project: str, *words: str, scope: Sequence[str] = ("--allow", "src")) -> tuple[int, dict[str, Any]]:
        """`gatewright run` on a project, as a person orders it: exit code and result."""
        done = self.cli("run", "a change", "--repo", f"/repositories/{project}", *scope, *words, "--json")
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return done.returncode, result

    def inside(self, service: str, *words: str) -> str:
        """What a command in the container of a service says."""
        return self.do("exec", "-T", service, *words).stdout

    def containers(self, service: str) -> list[str]:
        """The ids of the running containers of a service."""
        return self.do("ps", "--quiet", "--status", "running", service).stdout.split()

    def logs(self) -> str:
        """The last words of every container."""
        return self.do("logs", "--no-color", "--tail", "60", check=False).stdout

    def address(self) -> BusAddress:
        """Where the bus is for programs of this host, as operator."""
        seed = self.folder / "operator.nk"
        if not seed.exists():
            self.do("cp", "keys:/srv/identities/operator.nk", str(seed))
        return BusAddress(",".join(f"nats://127.0.0.1:{port}" for port in self.ports), seed)

    def reaches(self, service: str, host: str, port: int) -> bool:
        """Return whether the container of a service can connect to a port."""
        code = f"import socket; socket.create_connection(('{host}', {port}), 3)"
        return self.do("exec", "-T", service, "python", "-c", code, check=False).returncode == 0

    @contextlib.contextmanager
    def beside(self, name: str, *words: str, folder: Path, aliases: Sequence[str] = ()) -> Iterator[None]:
        """A server in Python on the network ``outside``, for the time of a block; it sees ``folder`` as ``/shown``."""
        project = json.loads(self.do("config", "--format", "json").stdout)["name"]
        given = ("--name", name, "--network", f"{project}_outside", "--volume", f"{folder}:/shown:ro")
        named = [word for alias in aliases for word in ("--network-alias", alias)]
        python = ("--env", "PYTHONPATH=/shown", "--entrypoint", "python", project)
        engine("run", "--rm", "--detach", *given, *named, *python, *words)
        try:
            yield
        finally:
            engine("rm", "--force", name, check=False)

    @contextlib.contextmanager
    def client(self) -> Iterator[SyncClient]:
        with SyncClient(self.address(), requested_by="tests") as client:
            yield client

    def make_project(self, name: str, files: Mapping[str, bytes] | None = None) -> Path:
        """A repository that the services own, at ``/repositories/<name>`` inside."""
        project = self.repositories / name
        for file, content in {**FILES, **(files or {})}.items():
            place = project / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        git(project, "init", "--quiet", "--template=", "--initial-branch=main")
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--message", "first")
        for place in (project, *project.rglob("*")):
            os.chown(place, UID, UID, follow_symlinks=False)
        return project


def git(project: Path, *words: str) -> str:
    """Plain git in a repository that may belong to somebody else."""
    settings = ("-c", "safe.directory=*", "-c", "user.name=A. Person", "-c", "user.email=person@example.org")
    return subprocess.run(
        ["git", "-C", str(project), *settings, *words], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def slow_request(name: str, seconds: float, *, parts: int = 1, key: str | None = None) -> RunRequest:
    """A run whose workers sleep and then edit the files of ``src``, landed on a branch of its own."""
    return RunRequest(
        request="slow and steady",
        repository=Repository(url=f"/repositories/{name}"),
        requested_by="tests",
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="edited", cmd="python tools/check.py 0", must_pass=True),),
        executor=Executor(kind="command", commands=(f"python tools/edit.py {seconds} {{paths}}",)),
        sharding=Sharding(count=parts),
        idempotency_key=key,
    )


def copy_checkout(target: Path) -> None:
    """What a fresh clone of this checkout would hold, were everything committed."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, place = ROOT / name, target / name
        if source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)


@contextlib.contextmanager
def deployed(
    folder: Path,
    *files: str,
    servers: int = 1,
    policies: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Deployment]:
    """The system, up and healthy, for the time of a block; nothing of it stays.

    ``policies`` are further policy files, ``environment`` further variables of ``.env``.
    """
    checkout, (console, *ports) = folder / "checkout", free_ports(1 + servers)
    copy_checkout(checkout)
    (folder / "repositories").mkdir()
    names = ("GATEWRIGHT_NATS_PORT", "GATEWRIGHT_NATS_PORT_2", "GATEWRIGHT_NATS_PORT_3")
    project = f"gatewright-test-{uuid.uuid4().hex[:8]}"
    settings = {
        "COMPOSE_PROJECT_NAME": project,
        "GATEWRIGHT_IMAGE": project,
        "GATEWRIGHT_UID": str(UID),
        "COMPOSE_PROFILES": "console",
        "GATEWRIGHT_CONSOLE_PORT": str(console),
        "GATEWRIGHT_REPOSITORIES": str(folder / "repositories"),
        **{name: str(port) for name, port in zip(names, ports, strict=False)},
        **(environment or {}),
    }
    for name, text in (policies or {}).items():
        (checkout / "policies" / name).write_text(text)
    (checkout / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    compose = DockerCompose(str(checkout), compose_file_name=list(files or (BASE,)), build=True, wait=True)
    deployment = Deployment(compose, folder, tuple(ports), console)
    try:
        up = deployment.do("up", "--build", "--wait", "--wait-timeout", "300", seconds=900, check=False)
        assert up.returncode == 0, f"{up.stderr[-4000:]}\n{deployment.logs()}"
        yield deployment
    finally:
        compose.stop()
        engine("image", "rm", project, check=False)


def free_ports(count: int) -> tuple[int, ...]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return tuple(each.getsockname()[1] for each in sockets)


def engine(*words: str, check: bool = True) -> str:
    """`docker ...` to its end; what it says."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=check, timeout=60).stdout.strip()


def wait_until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Look every half second until ``what`` is true; an AssertionError when it never is."""
    give_up = time.monotonic() + seconds
    while not what():
        if time.monotonic() > give_up:
            pytest.fail("it did not happen")
        time.sleep(0.5)


def unverified(deployment: Deployment, runs: Sequence[str]) -> list[str]:
    """Which of these runs have no bundle that verifies."""
    script = 'for run in "$@"; do gatewright verify "/var/lib/gatewright/runs/$run" >/dev/null 2>&1 || echo "$run"; done'
    done = deployment.do("run", "--rm", "-T", "--entrypoint", "sh", "cli", "-c", script, "verify", *runs, seconds=300)
    return done.stdout.split()
