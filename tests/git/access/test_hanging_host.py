"""A git server that hangs: it takes connections and answers nothing. Work on other repositories goes on."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.access.remote_git import LIMITS, HostCalls, host_of
from gatewright.git.mirror import Mirrors
from gatewright.git.refs import parse_url
from gatewright.outside_calls import CallLimits
from tests.git.repositories import Repository

#: Seconds after which work that waits for the host would still wait.
PATIENCE = 90.0
#: Threads of the executor that everything else shares.
THREADS = 2


class HangingHost:
    """A listening socket, nothing more."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._taken: list[socket.socket] = []

    def url(self, name: object) -> str:
        return f"https://127.0.0.1:{self._listening.getsockname()[1]}/{name}.git"

    async def connected(self, number: int) -> None:
        """Return when ``number`` clients are connected."""
        while len(self._taken) < number:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
            self._taken.append(connection)

    def close(self) -> None:
        for each in self._taken:
            each.close()


@pytest.fixture
async def hanging_host() -> AsyncIterator[HangingHost]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        listening.setblocking(False)
        host = HangingHost(listening)
        yield host
        host.close()


async def test_work_on_local_repositories_goes_on_while_a_host_hangs(
    hanging_host: HangingHost, first_repository: Repository, tmp_path: Path
) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    mirrors = Mirrors(tmp_path / "mirrors")
    hanging = [asyncio.ensure_future(mirrors.open(hanging_host.url(number))) for number in range(LIMITS.places)]
    async with asyncio.timeout(PATIENCE):
        await hanging_host.connected(THREADS)
        mirror = await mirrors.open(str(first_repository.path))
        assert await mirror.resolve("HEAD") == first_repository.git("rev-parse", "HEAD").decode().strip()
    assert not any(each.done() for each in hanging)
    for each in hanging:
        each.cancel()
    assert all(isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*hanging, return_exceptions=True))


async def test_a_host_whose_calls_all_hang_is_reported_busy() -> None:
    hosts, going = HostCalls(CallLimits(places=1, patience=0.05)), threading.Event()
    one = hosts.of(parse_url("https://git.example/a.git", ("https",)))
    same = hosts.of(parse_url("https://GIT.example/b.git", ("https",)))
    other = hosts.of(parse_url("https://git.other.example/a.git", ("https",)))
    assert one is not None
    assert other is not None
    assert one is same
    hanging = asyncio.ensure_future(one.call(None, going.wait))
    await asyncio.sleep(0)
    with pytest.raises(GitError) as refused:
        await one.call(None, lambda: None)
    assert refused.value.reason == "repository_host_busy"
    assert await other.call(None, lambda: "answer") == "answer"
    going.set()
    assert await hanging


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://Git.example/a.git", "git.example"),
        ("https://git.example:8443/a.git", "git.example:8443"),
        ("ssh://git@git.example:22/a.git", "git.example:22"),
        ("git@git.example:team/a.git", "git.example"),
    ],
)
def test_calls_are_counted_by_host_and_port(address: str, host: str) -> None:
    assert host_of(parse_url(address, ("https", "ssh"))) == host


def test_a_local_repository_has_no_host(tmp_path: Path) -> None:
    assert HostCalls().of(parse_url(str(tmp_path), ("file",))) is None
