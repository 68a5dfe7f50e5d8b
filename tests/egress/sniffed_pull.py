"""A real pull in a network of its own, with sniffers: ``python -m tests.egress.sniffed_pull FOLDER WAY`` prints JSON.

``WAY`` is ``install`` (an honest package), ``hostile`` (a package whose build tries all ways out) or ``outside`` (the same
program without a box).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gatewright.app.environments.plan import Installer
from gatewright.app.environments.prepare import prepare_environments
from gatewright.egress.record import parse_egress_log
from gatewright.sandbox.environments import EGRESS_LOG, read_record
from gatewright.sandbox.process import session
from gatewright.sandbox.process.listening_inside import listen_inside
from tests.ecosystems.python.trees import Tree
from tests.egress import hostile
from tests.egress.sniffer import Packet, Sniffer, give_no_capability
from tests.environments.registries import Reply, served
from tests.environments.test_pull import hostile_package
from tests.environments.wheels import index_of, make_wheel, pip_from

BACKEND = """
import json, os, zipfile
from pathlib import Path
import hostile

def build_wheel(folder, settings=None, metadata=None):
    name, info = "hostile-1.0-py3-none-any.whl", "hostile-1.0.dist-info"
    marks = json.loads(Path(__file__).with_name("marks.json").read_text())
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("outcomes.json", json.dumps(hostile.outcomes(marks)))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: hostile\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@contextlib.contextmanager
def host_sockets(folder: Path) -> Iterator[dict[str, Any]]:
    """Servers of the host that ``hostile`` tries to reach; ``listening`` are those whose connections no sniffer sees."""
    with contextlib.ExitStack() as held:
        servers = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        names = {"unix": str(folder / "host.sock"), "abstract": f"gatewright-{folder}"}
        for server, name in zip(servers, (names["unix"], "\0" + names["abstract"]), strict=True):
            server.bind(name)
            server.listen()
            server.setblocking(False)
        everywhere = held.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
        yield {**names, "port": everywhere.getsockname()[1], "listening": servers}


def connections(servers: list[socket.socket]) -> int:
    """Return how many of the servers have a connection."""
    found = 0
    for each in servers:
        with contextlib.suppress(BlockingIOError):
            each.accept()[0].close()
            found += 1
    return found


@contextlib.contextmanager
def sniffed_boxes() -> Iterator[list[Sniffer]]:
    """Put a sniffer into each box before its program starts."""
    sniffers: list[Sniffer] = []

    def sniff_and_listen(pid: int, port: int) -> socket.socket:
        sniffers.append(Sniffer.inside(pid))
        return listen_inside(pid, port)

    with patch.object(session, "listen_inside", sniff_and_listen):
        yield sniffers


async def pull(folder: Path, package: str, marks: dict[str, Any]) -> dict[str, Any]:
    """Install a package, and return what the gateway did. Its connections are this process's only ones."""
    loop, ports = asyncio.get_running_loop(), list[int]()
    connect = loop.sock_connect

    async def recorded(sock: socket.socket, address: Any) -> None:
        await connect(sock, address)
        ports.append(sock.getsockname()[1])

    loop.sock_connect = recorded  # type: ignore[method-assign]
    make_wheel(folder / "wheels", "needed")
    pages: dict[str, bytes | Reply] = {}
    with served(pages) as address:
        marks["registry"] = ("127.0.0.1", int(address.rpartition(":")[2]))
        hostile_package(folder / "wheels", marks, {"backend.py": BACKEND, "hostile.py": Path(hostile.__file__).read_text()})
        pages.update(index_of(folder / "wheels"))
        installer = Installer(pip_from(address, folder), source_builds=package == "hostile")
        tree = Tree({"requirements.txt": package})
        (prefix,) = await prepare_environments(folder / "home", tree, ("python t.py",), installer, lambda _: None)
    record = read_record(prefix)
    assert record is not None
    assert record.egress is not None
    log = parse_egress_log((prefix / EGRESS_LOG).read_bytes(), record.egress.head)
    found = next(iter(prefix.glob("lib/python*/site-packages/outcomes.json")), None)
    outcomes = json.loads(found.read_text()) if found else {}
    return {"ports": ports, "requests": len(log), "outcomes": outcomes}


def unique(packets: list[Packet]) -> list[Packet]:
    return list(dict.fromkeys(packets))


def main(folder: Path, way: str) -> None:
    if way != "outside":
        give_no_capability()
    with host_sockets(folder) as marks, sniffed_boxes() as boxes:
        servers, host = marks.pop("listening"), Sniffer.here()
        if way == "outside":
            marks["registry"] = ("127.0.0.1", marks["port"])
            argv = [sys.executable, hostile.__file__, json.dumps(marks)]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            result: dict[str, Any] = {"ports": [], "outcomes": json.loads(done.stdout)}
        else:
            result = asyncio.run(pull(folder, "needed" if way == "install" else "hostile", marks))
        inside = [packet for each in boxes for packet in each.packets()]
        interfaces = sorted({name for each in boxes for name in each.interfaces})
        result |= {"box": unique(inside), "host": unique(host.packets()), "interfaces": interfaces, "marks": marks}
        sys.stdout.write(json.dumps(result | {"connections": connections(servers)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
