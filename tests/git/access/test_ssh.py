"""Private repositories over ssh, with the ssh of this host and a server that speaks the protocol: one key, known hosts only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import AccessRole
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.refs import parse_url
from gatewright.git.remote_run_refs import RemoteRunRefs
from tests.git.access.conftest import write_policy
from tests.git.repositories import Repository
from tests.openssh_account import needs_account

pytestmark = needs_account

REF = "refs/heads/gatewright/run-1"


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
        return f"ssh://git@127.0.0.1:{self.port}/team/shop.git"


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


@pytest.fixture
async def ssh_server(tmp_path: Path, remote: Repository) -> AsyncIterator[SshServer]:
    told = SshServer(
        {
            make_key(tmp_path / "read-key"): frozenset({"git-upload-pack"}),
            make_key(tmp_path / "push-key"): frozenset({"git-upload-pack", "git-receive-pack"}),
        },
        tmp_path / "known_hosts",
    )
    host_key = asyncssh.generate_private_key("ssh-ed25519")

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        service, path = shlex.split(process.command or "")
        told.commands.append(service)
        if service not in process.get_extra_info("rights"):
            process.stderr.write(b"this key may only read\n")
            process.exit(1)
            return
        argv = ("git", service.removeprefix("git-"), str(tmp_path / "served") + path)
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


def entry(server: SshServer, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "places": [f"ssh://git@127.0.0.1:{server.port}/team/"],
        "read": {"key_file": str(folder / "read-key")},
        "push": {"key_file": str(folder / "push-key")},
        "known_hosts": str(server.known_hosts),
        **more,
    }


async def opened(server: SshServer, folder: Path, role: AccessRole = "gatekeeper", **more: Any) -> Mirror:
    access = RepositoryAccess.load(write_policy(folder / "policies", entry(server, folder, **more)), role)
    return await Mirrors(folder / "mirrors", access=access, transfer_seconds=60).open(server.url)


async def candidate(mirror: Mirror) -> str:
    base = await mirror.resolve("main")
    tree = await mirror.write_tree(base, [FileChange(b"landed.txt", "100644", b"new\n")])
    return await mirror.commit_tree(tree, parent=base, message="land\n", when=datetime(2026, 3, 1, tzinfo=UTC))


async def test_one_key_reads_and_another_one_lands(ssh_server: SshServer, remote: Repository, tmp_path: Path) -> None:
    mirror = await opened(ssh_server, tmp_path)
    read, push = ssh_server.rights
    commit = await candidate(mirror)
    assert set(ssh_server.offered) == {read}
    ssh_server.offered.clear()
    await mirror.push(commit, REF, expected=None)
    assert remote.head(REF) == commit
    assert set(ssh_server.offered) == {push}


async def test_the_reading_key_cannot_push(ssh_server: SshServer, remote: Repository, tmp_path: Path) -> None:
    mirror = await opened(ssh_server, tmp_path, push={"key_file": str(tmp_path / "read-key")})
    commit = await candidate(mirror)
    with pytest.raises(GitError, match="this key may only read"):
        await mirror.push(commit, REF, expected=None)
    assert "git-receive-pack" in ssh_server.commands
    assert not remote.exists(REF)


@pytest.mark.parametrize("name", ["pre-receive", "update"])
async def test_the_words_of_a_servers_hook_reach_who_lands(
    ssh_server: SshServer, remote: Repository, tmp_path: Path, name: str
) -> None:
    mirror = await opened(ssh_server, tmp_path)
    commit = await candidate(mirror)
    hook = remote.path / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'unsigned commits are refused' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError, match="unsigned commits are refused") as caught:
        await mirror.push(commit, REF, expected=None)
    assert caught.value.reason == "landing_unsigned"
    assert not remote.exists(REF)


@pytest.mark.parametrize("known", ["", "[127.0.0.1]:{port} ssh-ed25519 {other}\n"], ids=["unknown", "changed"])
async def test_a_host_whose_key_is_not_the_known_one_is_not_spoken_to(
    ssh_server: SshServer, tmp_path: Path, known: str
) -> None:
    other = make_key(tmp_path / "other-key")
    ssh_server.known_hosts.write_text(known.format(port=ssh_server.port, other=other))
    with pytest.raises(GitError) as caught:
        await opened(ssh_server, tmp_path)
    assert caught.value.reason == "repository_not_trusted"
    assert not ssh_server.offered


async def test_a_key_that_the_server_does_not_know_is_told(ssh_server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "read-key")
    with pytest.raises(GitError) as caught:
        await opened(ssh_server, tmp_path)
    assert caught.value.reason == "repository_access_denied"


async def test_a_key_that_is_not_there_is_told(ssh_server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "read-key").unlink()
    with pytest.raises(GitError) as caught:
        await opened(ssh_server, tmp_path)
    assert caught.value.reason == "repository_credentials_missing"


async def test_no_key_is_tried_for_a_repository_that_no_entry_covers(ssh_server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(GitError) as caught:
        await Mirrors(tmp_path / "mirrors").open(ssh_server.url)
    assert caught.value.reason == "repository_credentials_missing"
    assert not ssh_server.offered


@contextlib.contextmanager
def agent(socket: Path, key: Path) -> Iterator[None]:
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert process.poll() is None
        added = ["ssh-add", "-q", str(key)]
        subprocess.run(added, env={"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": str(socket)}, check=True)
        yield
    finally:
        process.terminate()
        process.wait()


async def test_branches_of_runs_are_deleted_with_the_key_that_pushes(
    ssh_server: SshServer, remote: Repository, tmp_path: Path
) -> None:
    for name in ("run-1", "run-2"):
        remote.git("update-ref", f"refs/heads/gatewright/{name}", remote.head("main"))
    access = RepositoryAccess.load(write_policy(tmp_path / "policies", entry(ssh_server, tmp_path)), "operator")
    refs = RemoteRunRefs(tmp_path / "copy.git", parse_url(ssh_server.url, ("ssh",)), access, most=1 << 30)
    first, second = await asyncio.to_thread(refs.found)
    remote.git("update-ref", second.ref, remote.git("commit-tree", "-m", "moved", "main^{tree}").decode().strip())
    await asyncio.to_thread(refs.delete, first)
    with pytest.raises(GitError) as caught:
        await asyncio.to_thread(refs.delete, second)
    assert caught.value.reason == "ref_moved"
    assert not remote.exists(first.ref)
    assert remote.exists(second.ref)


async def test_the_agent_is_asked_where_the_policy_says_so_and_nowhere_else(
    ssh_server: SshServer, remote: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents_key = make_key(tmp_path / "agents-key")
    ssh_server.rights[agents_key] = frozenset({"git-upload-pack"})
    with agent(tmp_path / "agent.sock", tmp_path / "agents-key"):
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent.sock"))
        mirror = await opened(ssh_server, tmp_path)
        assert await mirror.resolve("main") == remote.head("main")
        assert agents_key not in ssh_server.offered
        mirror = await opened(ssh_server, tmp_path, read={"agent": True})
        assert await mirror.current("refs/heads/main") == remote.head("main")
        assert agents_key in ssh_server.offered
