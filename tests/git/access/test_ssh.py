"""Private repositories over ssh, with the ssh of this host and a server that speaks the protocol: one key, known hosts only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.access.policy import AccessRole
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.refs import parse_url
from gatewright.git.remote_run_refs import RemoteRunRefs
from tests.git.access.conftest import write_policy
from tests.git.access.ssh_servers import SshServer, make_key, open_ssh_server, ssh_entry
from tests.git.repositories import Repository
from tests.openssh_account import needs_account

pytestmark = needs_account

REF = "refs/heads/gatewright/run-1"


@pytest.fixture
async def ssh_server(tmp_path: Path, remote: Repository) -> AsyncIterator[SshServer]:
    async with open_ssh_server(tmp_path, tmp_path / "served") as server:
        yield server


async def opened(server: SshServer, folder: Path, role: AccessRole = "gatekeeper", **more: Any) -> Mirror:
    access = RepositoryAccess.load(write_policy(folder / "policies", ssh_entry(server, folder, **more)), role)
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
async def test_a_host_with_an_unknown_key_is_refused(ssh_server: SshServer, tmp_path: Path, known: str) -> None:
    other = make_key(tmp_path / "other-key")
    ssh_server.known_hosts.write_text(known.format(port=ssh_server.port, other=other))
    with pytest.raises(GitError) as caught:
        await opened(ssh_server, tmp_path)
    assert caught.value.reason == "repository_not_trusted"
    assert not ssh_server.offered


async def test_a_key_unknown_to_the_server_is_reported(ssh_server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "read-key")
    with pytest.raises(GitError) as caught:
        await opened(ssh_server, tmp_path)
    assert caught.value.reason == "repository_access_denied"


async def test_a_missing_key_is_reported(ssh_server: SshServer, tmp_path: Path) -> None:
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
    access = RepositoryAccess.load(write_policy(tmp_path / "policies", ssh_entry(ssh_server, tmp_path)), "operator")
    refs = RemoteRunRefs(tmp_path / "copy.git", parse_url(ssh_server.url, ("ssh",)), access, most=1 << 30)
    first, second = await asyncio.to_thread(refs.found)
    remote.git("update-ref", second.ref, remote.git("commit-tree", "-m", "moved", "main^{tree}").decode().strip())
    await asyncio.to_thread(refs.delete, first)
    with pytest.raises(GitError) as caught:
        await asyncio.to_thread(refs.delete, second)
    assert caught.value.reason == "ref_moved"
    assert not remote.exists(first.ref)
    assert remote.exists(second.ref)


async def test_the_agent_is_used_only_where_the_policy_allows_it(
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
