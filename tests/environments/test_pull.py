"""The pull phase of ``--env auto``: an installer in a box reaches its registries through the gateway, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Installer, is_whole
from gatewright.app.environments.prepare import prepare_environments
from gatewright.egress.gateway import EgressGateway
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressLog, EgressRecord, parse_egress_log
from gatewright.sandbox.environments import EGRESS_LOG, PreparedEnvironment, read_record
from tests.ecosystems.python.trees import Tree
from tests.environments.registries import Reply, served
from tests.environments.wheels import index_of, make_wheel, pip_from

NEEDED = Tree({"requirements.txt": "needed"})
SECRET = "user:very-secret-word"
WHEEL = "/files/needed-1.0-py3-none-any.whl"
#: The whole of a hostile build: each attack leaves its outcome in the wheel.
BACKEND = """
import json, os, socket, sys, zipfile
from pathlib import Path
MARKS = json.loads(Path(__file__).with_name("marks.json").read_text())

def reach(kind, family, address, words=b""):
    with socket.socket(family, kind) as sent:
        sent.settimeout(5)
        sent.connect(address)
        sent.send(words)
    return "reached"

def environments():
    found = [str(dict(os.environ)).encode()]
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(place.read_bytes())
        except OSError:
            pass
    for folder, _, names in os.walk(os.environ.get("HOME", "/nonexistent")):
        found += [Path(folder, name).read_bytes() for name in names]
    return "reached" if MARKS["word"].encode() in b"".join(found) else "nothing"

ATTACKS = {
    "tcp": lambda: reach(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", MARKS["tcp"])),
    "udp": lambda: reach(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", MARKS["udp"]), b"stolen"),
    "name": lambda: socket.getaddrinfo("pypi.org", 443) and "reached",
    "metadata": lambda: reach(socket.SOCK_STREAM, socket.AF_INET, ("169.254.169.254", 80)),
    "unix": lambda: reach(socket.SOCK_STREAM, socket.AF_UNIX, MARKS["unix"]),
    "key": lambda: Path(MARKS["key"]).read_text() and "reached",
    "credential": environments,
}

def outcomes():
    found = {}
    for name, attack in ATTACKS.items():
        try:
            found[name] = attack()
        except OSError as error:
            found[name] = type(error).__name__
    return found

def build_wheel(folder, settings=None, metadata=None):
    name = "hostile-1.0-py3-none-any.whl"
    info = "hostile-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("outcomes.json", json.dumps(outcomes()))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: hostile\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name

if __name__ == "__main__":
    print(json.dumps(outcomes()))
"""
PROJECT = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "hostile"\nversion = "1.0"\n'
)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "needed")
    return tmp_path / "wheels"


async def prepare(folder: Path, installer: Installer, tree: Tree = NEEDED) -> tuple[Path, list[str]]:
    told: list[str] = []
    (prefix,) = await prepare_environments(folder / "home", tree, ("python t.py",), installer, told.append)
    return prefix, told


def record_of(prefix: Path) -> PreparedEnvironment:
    record = read_record(prefix)
    assert record is not None
    return record


def left_over(folder: Path) -> list[str]:
    """What a failed maker leaves besides the kept pip, which is complete: its lock alone, and no process."""
    named = str(folder).encode()
    running = [place for place in Path("/proc").glob("[0-9]*/cmdline") if named in _read(place)]
    made = (each for each in (folder / "home/environments").iterdir() if not is_whole(each.with_suffix("")))
    return [each.suffix for each in made] + [str(each) for each in running]


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError:
        return b""


async def test_packages_come_through_the_gateway_and_are_logged(tmp_path: Path, wheels: Path) -> None:
    asked: list[str] = []
    with served(index_of(wheels), asked) as address:
        prefix, told = await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
        again, repeated = await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
    assert list(prefix.glob("lib/python*/site-packages/needed.py"))
    record = record_of(prefix).egress
    assert record is not None
    logged = parse_egress_log((prefix / EGRESS_LOG).read_bytes(), record.head)
    assert [each.path for each in logged if each.path == WHEEL] == asked[-1:] == [WHEEL]
    assert (record.requests, record.refused) == (len(logged), 0)
    assert record.bytes >= len((wheels / WHEEL.rpartition("/")[2]).read_bytes())
    assert f"({record.requests} requests, 0 refused" in told[-1]
    assert (again, repeated) == (prefix, ["the environment from requirements.txt exists: 0 requests to registries"])


async def test_an_environment_belongs_to_its_maker_and_is_readable(tmp_path: Path, wheels: Path) -> None:
    before = os.umask(0o077)
    try:
        with served(index_of(wheels)) as address:
            prefix, _ = await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
    finally:
        os.umask(before)
    (module,) = prefix.glob("lib/python*/site-packages/needed.py")
    assert (module.stat().st_uid, module.stat().st_mode & 0o777) == (os.getuid(), 0o644)


async def test_a_registrys_credential_is_used_and_never_shown(tmp_path: Path, wheels: Path) -> None:
    seen: list[str | None] = []
    with served(index_of(wheels), credentials=seen) as address:
        own = pip_from(address.replace("http://", f"http://{SECRET}@"), tmp_path)
        prefix, _ = await prepare(tmp_path, Installer(own))
    assert {each and each.partition(" ")[0] for each in seen} == {"Basic"}
    assert SECRET.partition(":")[2].encode() not in (prefix / EGRESS_LOG).read_bytes()


def hostile_package(folder: Path, marks: dict[str, Any], modules: Mapping[str, str] | None = None) -> None:
    """A source distribution whose build makes every attack, or has other ``modules``."""
    folder.mkdir(exist_ok=True)
    own = {"pyproject.toml": PROJECT, "marks.json": json.dumps(marks), "PKG-INFO": "Name: hostile\n"}
    files = {**own, **(modules or {"backend.py": BACKEND})}
    with tarfile.open(folder / "hostile-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"hostile-1.0/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What a build tries to reach on this host: two servers, a socket, a key, a credential."""
    key = tmp_path / "user/.ssh/id"
    key.parent.mkdir(parents=True)
    key.write_text("private")
    with ExitStack() as held:
        tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        unix = held.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(tmp_path / "host.sock"))
        unix.listen()
        ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
        yield {**ports, "unix": str(tmp_path / "host.sock"), "key": str(key), "word": SECRET.partition(":")[2], "_udp": udp}


async def test_a_hostile_build_reaches_nothing_of_the_host(tmp_path: Path, wheels: Path, marks: dict[str, Any]) -> None:
    udp = marks.pop("_udp")
    hostile_package(wheels, marks)
    with served(index_of(wheels)) as address:
        own = {**pip_from(address.replace("http://", f"http://{SECRET}@"), tmp_path / "user"), "OWN": SECRET}
        installer = Installer(own, source_builds=True)
        prefix, _ = await prepare(tmp_path, installer, Tree({"requirements.txt": "hostile"}))
    (found,) = prefix.glob("lib/python*/site-packages/outcomes.json")
    outcomes = json.loads(found.read_text())
    assert "reached" not in {name: outcome for name, outcome in outcomes.items() if name != "udp"}.values(), outcomes
    with pytest.raises(BlockingIOError):  # a datagram may be sent, to nobody
        udp.recv(1)
    # The control: the same program outside of the box.
    program = tmp_path / "backend.py"
    program.write_text(BACKEND)
    (tmp_path / "marks.json").write_text(json.dumps(marks))
    done = subprocess.run([sys.executable, program], env=own, capture_output=True, text=True, check=True)
    control = json.loads(done.stdout)
    assert {name for name, outcome in control.items() if outcome == "reached"} >= {"tcp", "udp", "unix", "key", "credential"}
    assert udp.recv(10) == b"stolen"


NO_ANSWER = f"the egress gateway had no complete answer from 127.0.0.1:[0-9]+{WHEEL}: egress_source_unavailable"
FAULTS = {
    "a wrong digest": (Reply(200, b"other content"), "DO NOT MATCH THE HASHES"),
    "a short answer": (Reply(200, b"short", length=500), NO_ANSWER),
    "no such file": (Reply(404), "HTTP error 404"),
    "a broken registry": (Reply(500), "too many 500 error responses"),
    "a loop of redirects": (
        Reply(302, headers={"Location": WHEEL}),
        f"{WHEEL}: egress_redirect_refused",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_registry_leaves_nothing_behind(tmp_path: Path, wheels: Path, fault: str) -> None:
    reply, words = FAULTS[fault]
    with served({**index_of(wheels), WHEEL: reply}) as address, pytest.raises(NotPreparedError, match=words) as refused:
        await prepare(tmp_path, Installer({**pip_from(address, tmp_path), "PIP_RETRIES": "0"}))
    assert refused.value.reason == "environment_not_prepared"
    assert "requirements.txt: python pip ended with 1" in refused.value.message
    assert left_over(tmp_path) == [".lock"]


async def test_a_registry_that_is_down_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(NotPreparedError, match=r"requirements\.txt.*(?s:.*)had no complete answer"):
        await prepare(tmp_path, Installer({**pip_from(address, tmp_path), "PIP_RETRIES": "0"}))
    assert left_over(tmp_path) == [".lock"]


async def test_a_redirect_to_another_host_is_refused(tmp_path: Path, wheels: Path) -> None:
    elsewhere: list[str] = []
    with served(index_of(wheels), elsewhere) as other:
        moved = Reply(302, headers={"Location": f"{other}{WHEEL}"})
        with served({**index_of(wheels), WHEEL: moved}) as address, pytest.raises(NotPreparedError) as refused:
            await prepare(tmp_path, Installer({**pip_from(address, tmp_path), "PIP_RETRIES": "0"}))
    assert "the egress gateway refused" in refused.value.message
    assert elsewhere == []
    assert left_over(tmp_path) == [".lock"]


async def test_a_gateway_that_ends_stops_the_phase(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = EgressGateway.serve
    loop, requested = asyncio.get_running_loop(), asyncio.Event()

    class Asked(list[str]):
        def append(self, path: str) -> None:
            super().append(path)
            loop.call_soon_threadsafe(requested.set)

    async def until_asked(gateway: EgressGateway, listening: socket.socket) -> None:
        serving = asyncio.ensure_future(serve(gateway, listening))
        await requested.wait()
        serving.cancel()
        await serving

    monkeypatch.setattr(EgressGateway, "serve", until_asked)
    with served(index_of(wheels), Asked()) as address, pytest.raises(NotPreparedError, match=r"egress gateway.* has failed"):
        await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
    assert left_over(tmp_path) == [".lock"]


@asynccontextmanager
async def silent_registry() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A registry that takes requests and never answers; the event is set once it has one."""
    asked = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_a_registry_that_never_answers_is_reported(tmp_path: Path) -> None:
    async with silent_registry() as (address, _):
        source = EgressSource(name="own", hosts=(address.removeprefix("http://"),), private=True, http=True, ecosystem="python")
        policy = EgressPolicy(version="1", sources=(source,), seconds=0.2)
        own = {**pip_from(address, tmp_path), "PIP_RETRIES": "0"}
        with pytest.raises(NotPreparedError, match=r"had no complete answer from .*/simple/needed/: egress_source_unavailable"):
            await prepare(tmp_path, Installer(own, egress=policy))
    assert left_over(tmp_path) == [".lock"]


async def test_a_disk_that_fills_up_ends_the_installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with silent_registry() as (address, asked):
        monkeypatch.setattr("gatewright.sandbox.process.watch.disk_nearly_full", lambda _: asked.is_set())
        with pytest.raises(NotPreparedError, match="the disk is nearly full; free some space"):
            await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
    assert left_over(tmp_path) == [".lock"]


async def test_a_request_that_cannot_be_logged_ends_the_pull(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(log: EgressLog, record: EgressRecord) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(EgressLog, "append", full)
    with served(index_of(wheels)) as address, pytest.raises(NotPreparedError, match=r"egress gateway.*No space left on device"):
        await prepare(tmp_path, Installer(pip_from(address, tmp_path)))
    assert left_over(tmp_path) == [".lock"]


async def test_a_cancelled_phase_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    async with silent_registry() as (address, asked):
        preparing = asyncio.ensure_future(prepare(tmp_path, Installer(pip_from(address, tmp_path))))
        await asked.wait()
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing
    assert left_over(tmp_path) == [".lock"]


async def test_the_operators_policy_is_the_ceiling(tmp_path: Path, wheels: Path) -> None:
    with served(index_of(wheels)) as address:
        host = address.removeprefix("http://")
        inside = EgressSource(name="own", hosts=(host,), private=True, http=True, ecosystem="python", index="/simple")
        outside = EgressSource(name="own", hosts=("registry.example.org",), ecosystem="python")
        installer = Installer(pip_from(address, tmp_path), egress=EgressPolicy(version="1", sources=(outside,)))
        with pytest.raises(NotPreparedError, match=f"names the registry {host}") as refused:
            await prepare(tmp_path, installer)
        assert refused.value.reason == "egress_registry_outside"
        allowed = replace(installer, egress=EgressPolicy(version="1", sources=(inside,)))
        prefix, _ = await prepare(tmp_path, allowed)
    assert list(prefix.glob("lib/python*/site-packages/needed.py"))


async def test_without_a_sandbox_the_gateway_is_the_proxy(tmp_path: Path, wheels: Path) -> None:
    with served(index_of(wheels)) as address:
        prefix, told = await prepare(tmp_path, Installer(pip_from(address, tmp_path), sandbox="none"))
    assert told[0].startswith("the sandbox is switched off")
    egress = record_of(prefix).egress
    assert egress is not None
    assert egress.requests
