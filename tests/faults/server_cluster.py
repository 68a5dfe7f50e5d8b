"""Three real servers of one cluster on this host, which can be ended and started again all at once."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from gatewright.app.stack.nats_server import find_binary
from gatewright.app.stack.processes import dies_with_parent
from gatewright.bus import identities
from gatewright.bus.identities import BusAddress, credential_file
from gatewright.bus.server_config import CLUSTER_PASSWORD, Cluster, ServerConfig, accounts, render
from tests.waiting import PATIENCE

SERVERS = 3
#: Seconds until three servers that were ended agree on a leader of everything.
AGREED_SECONDS = PATIENCE


@dataclass
class ServerCluster:
    """``ports``: of clients, by server; ``monitors``: where each server says whether it is well."""

    folder: Path
    keys: Path
    ports: list[int]
    monitors: list[int]
    password: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def prepare(cls, folder: Path, keys: Path, table: Mapping[str, Any] | None = None) -> Self:
        """The configuration of each server; none is started.

        ``table``: its accounts, in the place of those of the identities, which are made otherwise.
        """
        if table is None:
            identities.make(keys)
            table = accounts(identities.public_keys(keys))
        # A word: the server reads what begins with a digit as a number.
        password = f"among-servers-{secrets.token_hex(16)}"
        ports = free_ports(3 * SERVERS)
        clients, routes, monitors = ports[:SERVERS], ports[SERVERS : 2 * SERVERS], ports[2 * SERVERS :]
        for number in range(SERVERS):
            others = tuple(f"nats://gatewright:{password}@127.0.0.1:{port}" for port in routes if port != routes[number])
            place = folder / f"server-{number}"
            place.mkdir(parents=True)
            config = ServerConfig(
                store=place,
                accounts=table,
                listen=f"127.0.0.1:{clients[number]}",
                monitor=f"127.0.0.1:{monitors[number]}",
                server_name=f"server-{number}",
                log_file=place / "server.log",
                cluster=Cluster("three", f"127.0.0.1:{routes[number]}", others),
            )
            (place / "server.conf").write_text(render(config), "utf-8")
        return cls(folder, keys, clients, monitors, password)

    @property
    def url(self) -> str:
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)

    def address(self, identity: str) -> BusAddress:
        return BusAddress(self.url, credential_file(self.keys, identity))

    async def start(self) -> None:
        """All three; returns once each says that its streams and consumers have a leader."""
        self.processes = [self._spawn(number) for number in range(SERVERS)]
        async with asyncio.timeout(AGREED_SECONDS):
            while not await asyncio.to_thread(self._agreed):  # noqa: ASYNC110 - it is in other processes
                await asyncio.sleep(0.1)

    def kill(self) -> None:
        """All three at once, without a chance to write anything."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _spawn(self, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [find_binary(), "-c", self.folder / f"server-{number}" / "server.conf"],
            env={CLUSTER_PASSWORD: self.password},
            preexec_fn=dies_with_parent(),  # noqa: PLW1509 - before any thread uses it, it sets one flag of the process
        )

    def _agreed(self) -> bool:
        for port in self.monitors:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                    pass
            except (urllib.error.URLError, OSError):
                return False
        return True


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now; all are held until the last is found, so that none comes twice."""
    with contextlib.ExitStack() as held:
        return list(_taken(held, count))


def _taken(held: contextlib.ExitStack, count: int) -> Iterator[int]:
    for _ in range(count):
        yield held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
