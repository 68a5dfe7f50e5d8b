"""A server that speaks ssh and offers the bare repositories of a folder: which key may do what, and what clients came with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

REPOSITORY = "team/shop.git"


@dataclass
class SshServer:
    """``rights`` by the public half of a key; ``offered`` are those that clients came with."""

    rights: dict[str, frozenset[str]]
    known_hosts: Path
    port: int = 0
    offered: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.url_of(REPOSITORY)

    def url_of(self, path: str) -> str:
        return f"ssh://git@127.0.0.1:{self.port}/{path}"


def make_key(path: Path) -> str:
    """A private key in ``path``; its public half."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(path)
    path.chmod(0o600)
    return public(key)


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().split()[1]


class _Gate(asyncssh.SSHServer):
    def __init__(self, told: SshServer) -> None:
        self._told = told

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._told.offered.append(public(key))
        self._connection.set_extra_info(rights=self._told.rights.get(public(key), frozenset()))
        return public(key) in self._told.rights


async def _pass_on(source: Any, target: Any) -> None:
    """The bytes of one end to another, and then the end."""
    while piece := await source.read(65536):
        target.write(piece)
        await target.drain()
    target.write_eof()


@contextlib.asynccontextmanager
async def open_ssh_server(folder: Path, root: Path) -> AsyncIterator[SshServer]:
    """A server that offers ``root``. ``folder`` gets ``read-key``, ``push-key`` and ``known_hosts``."""
    told = SshServer(
        {
            make_key(folder / "read-key"): frozenset({"git-upload-pack"}),
            make_key(folder / "push-key"): frozenset({"git-upload-pack", "git-receive-pack"}),
        },
        folder / "known_hosts",
    )
    host_key = asyncssh.generate_private_key("ssh-ed25519")

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        service, path = shlex.split(process.command or "")
        told.commands.append(service)
        if service not in process.get_extra_info("rights"):
            process.stderr.write(b"this key may only read\n")
            process.exit(1)
            return
        argv = ("git", service.removeprefix("git-"), str(root) + path)
        pipe = asyncio.subprocess.PIPE
        git = await asyncio.create_subprocess_exec(*argv, env={"PATH": os.environ["PATH"]}, stdin=pipe, stdout=pipe)
        assert git.stdin is not None
        assert git.stdout is not None
        sending = asyncio.create_task(_pass_on(process.stdin, git.stdin))
        await _pass_on(git.stdout, process.stdout)
        sending.cancel()
        process.exit(await git.wait())

    server = await asyncssh.create_server(
        lambda: _Gate(told), "127.0.0.1", 0, server_host_keys=[host_key], process_factory=serve, encoding=None
    )
    told.port = server.get_port()
    told.known_hosts.write_text(f"[127.0.0.1]:{told.port} ssh-ed25519 {public(host_key)}\n")
    yield told
    server.close()
    await server.wait_closed()


def ssh_entry(server: SshServer, folder: Path, **more: Any) -> dict[str, Any]:
    """The place of ``repositories.json`` for the repositories below ``team``, with the keys in ``folder``."""
    return {
        "places": [server.url_of("team/")],
        "read": {"key_file": str(folder / "read-key")},
        "push": {"key_file": str(folder / "push-key")},
        "known_hosts": str(server.known_hosts),
        **more,
    }
