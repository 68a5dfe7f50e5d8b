"""Private repositories over https: a token reaches its own server, for its own purpose, and nothing and nobody else."""

from __future__ import annotations

import base64
import os
import ssl
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import DeniedError, GatewrightError, GitError
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirror
from tests.git.access.conftest import RIGHTS, MakeMirrors, entry
from tests.git.access.servers import (
    PUSH,
    READ,
    GitServer,
    counting_proxy,
    git_server,
    hostile_server,
    make_certificate,
)
from tests.git.repositories import Repository

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
REF = "refs/heads/gatewright/run-1"


async def refusal(awaited: Awaitable[object]) -> GatewrightError:
    with pytest.raises((GitError, DeniedError)) as caught:
        await awaited
    for token in (READ, PUSH):
        for form in (token, base64.b64encode(f"x-access-token:{token}".encode()).decode()):
            cause: BaseException | None = caught.value
            while cause is not None:
                assert form not in str(cause) + repr(vars(cause))
                cause = cause.__cause__ or cause.__context__
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1500
    return caught.value


async def candidate(mirror: Mirror, parent: str) -> str:
    tree = await mirror.write_tree(parent, [FileChange(b"landed.txt", "100644", b"new\n")])
    return await mirror.commit_tree(tree, parent=parent, message="land\n", when=WHEN)


async def test_a_worker_reads_with_the_token_that_reads(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors
) -> None:
    mirror = await make_mirrors("worker").open(server.url("team/shop.git"))
    assert await mirror.resolve("main") == remote.head("main")
    assert server.passwords() == {None, READ}


async def test_the_gatekeeper_lands_with_the_token_that_pushes(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors
) -> None:
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    commit = await candidate(mirror, await mirror.resolve("main"))
    server.seen.clear()
    await mirror.push(commit, REF, expected=None)
    assert remote.head(REF) == commit
    assert server.passwords() == {None, PUSH}
    await mirror.push(commit, REF, expected=None)
    assert await mirror.current(REF) == commit


async def test_a_ref_that_moved_is_not_overwritten(server: GitServer, remote: Repository, make_mirrors: MakeMirrors) -> None:
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    await mirror.push(commit, "refs/heads/main", expected=base)
    other = await mirror.commit_tree(await mirror.tree_of(base), parent=base, message="other\n", when=WHEN)
    assert (await refusal(mirror.push(other, "refs/heads/main", expected=base))).reason == "landing_conflict"
    assert remote.head("main") == commit


async def test_a_worker_has_nothing_to_push_with(server: GitServer, make_mirrors: MakeMirrors) -> None:
    mirror = await make_mirrors("worker").open(server.url("team/shop.git"))
    commit = await candidate(mirror, await mirror.resolve("main"))
    error = await refusal(mirror.push(commit, REF, expected=None))
    assert error.reason == "repository_role_not_allowed"
    assert not [each for each in server.seen if "receive-pack" in each.path]


async def test_the_server_refuses_a_push_with_the_reading_token(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    """A compromised worker can use only the token that it has."""
    mirror = await make_mirrors("gatekeeper", entry(server, tmp_path / "tokens", push=READ)).open(server.url("team/shop.git"))
    commit = await candidate(mirror, await mirror.resolve("main"))
    assert (await refusal(mirror.push(commit, REF, expected=None))).reason == "repository_access_denied"
    assert set(server.statuses("receive-pack")) == {403}
    assert not remote.exists(REF)


async def test_a_role_that_the_entry_does_not_name_is_not_let_in(
    server: GitServer, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    told = entry(server, tmp_path / "tokens")
    told["read"]["roles"] = ["gatekeeper", "worker"]
    error = await refusal(make_mirrors("reviewer", told).open(server.url("team/shop.git")))
    assert error.reason == "repository_role_not_allowed"
    assert not server.seen


async def test_a_wrong_token_is_reported(server: GitServer, make_mirrors: MakeMirrors) -> None:
    mirrors = make_mirrors("worker")
    server.rights = {PUSH: RIGHTS[PUSH]}
    assert (await refusal(mirrors.open(server.url("team/shop.git")))).reason == "repository_access_denied"


async def test_a_token_that_expired_is_replaced_without_a_restart(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    mirror = await make_mirrors("worker").open(server.url("team/shop.git"))
    await mirror.resolve("main")
    server.rights = {"renewed-0001": RIGHTS[READ]}
    assert (await refusal(mirror.resolve("main"))).reason == "repository_access_denied"
    (tmp_path / "tokens/read").write_text("renewed-0001")
    assert await mirror.resolve("main") == remote.head("main")


async def test_a_missing_token_is_reported_before_any_request(
    server: GitServer, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    mirrors = make_mirrors("worker")
    (tmp_path / "tokens/read").unlink()
    assert (await refusal(mirrors.open(server.url("team/shop.git")))).reason == "repository_credentials_missing"
    assert not server.seen


async def test_a_repository_beside_an_entry_is_accessed_without_credentials(
    server: GitServer, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    told = entry(server, tmp_path / "tokens") | {"places": [server.url("teams/"), server.url("team/shop")]}
    anybody = {"places": [server.url("")], "ca_file": str(server.authority)}
    error = await refusal(make_mirrors("worker", told, anybody).open(server.url("team/shop.git")))
    assert error.reason == "repository_credentials_missing"
    assert server.passwords() == {None}


async def test_a_redirect_to_another_host_gets_no_token(
    server: GitServer, make_mirrors: MakeMirrors, certificate: Path, tmp_path: Path
) -> None:
    """The other host would ask for a password, and take any."""
    with git_server(tmp_path / "served", certificate, {"what nobody has": frozenset()}) as elsewhere:
        server.redirect = elsewhere.url("").rstrip("/")
        error = await refusal(make_mirrors("worker").open(server.url("team/shop.git")))
        assert error.reason == "repository_redirected"
        assert not elsewhere.seen
    assert {each.password for each in server.seen} <= {None}


async def test_a_push_whose_answer_is_lost_is_found_and_no_failure(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors
) -> None:
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    commit = await candidate(mirror, await mirror.resolve("main"))
    server.swallow = True
    await mirror.push(commit, REF, expected=None)
    assert remote.head(REF) == commit


async def test_a_server_that_refuses_is_quoted_within_bounds_and_without_control_characters(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors
) -> None:
    hook = remote.path / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf 'protected branch: ask \\033[31mthe owner\\007\\n'\nyes no | head -c 100000\nexit 1\n")
    hook.chmod(0o755)
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    commit = await candidate(mirror, await mirror.resolve("main"))
    error = await refusal(mirror.push(commit, REF, expected=None))
    assert error.reason == "landing_refused"
    assert "protected branch: ask" in error.message
    assert not remote.exists(REF)


async def test_an_unknown_authority_ends_access_before_a_token_is_sent(
    server: GitServer, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    other = make_certificate(tmp_path / "another")
    told = entry(server, tmp_path / "tokens") | {"ca_file": str(other)}
    assert (await refusal(make_mirrors("worker", told).open(server.url("team/shop.git")))).reason == "repository_not_trusted"
    del told["ca_file"]
    assert (await refusal(make_mirrors("worker", told).open(server.url("team/shop.git")))).reason == "repository_not_trusted"
    assert not server.seen


@pytest.mark.parametrize("password", [None, "proxy-secret-31337"])
async def test_the_proxy_of_the_entry_is_used_with_its_own_password(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors, tmp_path: Path, password: str | None
) -> None:
    with counting_proxy(password) as proxy:
        told = entry(server, tmp_path / "tokens", proxy={"url": f"http://127.0.0.1:{proxy.port}"})
        if password is not None:
            (tmp_path / "tokens/proxy").write_text(password)
            told["proxy"] |= {"user": "gate", "password": {"file": str(tmp_path / "tokens/proxy")}}
        mirror = await make_mirrors("worker", told).open(server.url("team/shop.git"))
        assert await mirror.resolve("main") == remote.head("main")
        assert {where for where, _ in proxy.asked} == {f"127.0.0.1:{server.port}"}
        assert password in {given for _, given in proxy.asked}
        assert READ not in {given for _, given in proxy.asked}
    assert server.passwords() == {None, READ}


async def test_a_proxy_that_refuses_is_reported(server: GitServer, make_mirrors: MakeMirrors, tmp_path: Path) -> None:
    with counting_proxy("what nobody has") as proxy:
        told = entry(server, tmp_path / "tokens", proxy={"url": f"http://127.0.0.1:{proxy.port}"})
        error = await refusal(make_mirrors("worker", told).open(server.url("team/shop.git")))
    assert error.reason == "repository_proxy_refused"
    assert not server.seen


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n"


def endless(client: ssl.SSLSocket) -> None:
    client.sendall(HEAD + b"001e# service=git-upload-pack\n0000")
    line = b"%040d refs/heads/%s\n"
    while True:
        client.sendall(b"".join(b"%04x" % 4090 + line % (1, b"x" * 4000)[:4086] for _ in range(1)) * 256)


def slow(client: ssl.SSLSocket) -> None:
    client.sendall(HEAD)
    while True:
        client.sendall(b"0")
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("say", [endless, slow])
async def test_a_server_without_end_is_left(
    certificate: Path, make_mirrors: MakeMirrors, tmp_path: Path, server: GitServer, say: object
) -> None:
    assert callable(say)
    with hostile_server(certificate, say) as port:
        told = {"places": [f"https://127.0.0.1:{port}/"], "ca_file": str(server.authority)}
        error = await refusal(make_mirrors("worker", told, seconds=2).open(f"https://127.0.0.1:{port}/x.git"))
    assert error.reason in {"git_timeout", "repository_too_large", "repository_unreadable", "git_output_too_large"}


@pytest.mark.long
async def test_a_server_that_sends_more_than_there_is_room_for_is_refused(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors, tmp_path: Path
) -> None:
    work = Repository(tmp_path / "work", remote.home)
    work.path.mkdir()
    work.git("clone", "--quiet", str(remote.path), ".")
    work.commit({"large.bin": os.urandom(6 << 20)})
    work.git("push", "--quiet", "origin", "HEAD:main")
    mirror = await make_mirrors("worker", most=4 << 20).open(server.url("team/shop.git"))
    error = await refusal(mirror.resolve("main"))
    assert error.reason == "repository_too_large", error.message
    assert sum(file.stat().st_size for file in mirror.path.rglob("*") if file.is_file()) < 1 << 20
