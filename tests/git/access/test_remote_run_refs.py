"""Branches of runs in a repository of another host: told apart without their files, deleted only where they still are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.access.credentials import RepositoryAccess
from gatewright.git.host.run_refs import RunRef
from gatewright.git.refs import parse_url
from gatewright.git.remote_run_refs import RemoteRunRefs
from tests.git.access.conftest import entry, write_policy
from tests.git.access.servers import PUSH, READ, GitServer, hostile_server
from tests.git.repositories import Repository

URL = "team/shop.git"
MakeRefs = Callable[..., RemoteRunRefs]


@pytest.fixture
def make_refs(tmp_path: Path, server: GitServer) -> MakeRefs:
    def make(url: str = "", most: int = 1 << 30, push: str | None = PUSH) -> RemoteRunRefs:
        told = entry(server, tmp_path / "tokens", push=push) | {"places": [url or server.url("team/")]}
        access = RepositoryAccess.load(write_policy(tmp_path / "policies", told), "operator")
        source = parse_url(url or server.url(URL), ("https",))
        return RemoteRunRefs(tmp_path / "copy.git", source, access, most=most, seconds=60)

    return make


@pytest.fixture
def branches(remote: Repository) -> dict[str, str]:
    """Commits of run-merged, which is in the tag v1, of run-tip, which is main's, and of run-own, which nobody else has."""
    main = remote.head("main")
    remote.git("update-ref", "refs/heads/gatewright/run-tip", main)
    for name in ("merged", "own"):
        commit = remote.git("commit-tree", "-p", main, "-m", name, f"{main}^{{tree}}").decode().strip()
        remote.git("update-ref", f"refs/heads/gatewright/run-{name}", commit)
    later = remote.git("commit-tree", "-p", "gatewright/run-merged", "-m", "later", f"{main}^{{tree}}").decode().strip()
    remote.git("tag", "-a", "-m", "v1", "v1", later)
    remote.git("tag", "a-file", f"{main}:README.md")
    return {f"run-{name}": remote.head(f"gatewright/run-{name}") for name in ("merged", "tip", "own")}


def states(found: tuple[RunRef, ...]) -> dict[str, str]:
    return {each.name: each.state for each in found}


def code(refs: RemoteRunRefs, found: RunRef) -> str:
    with pytest.raises(GitError) as refused:
        refs.delete(found)
    assert refused.value.message.isprintable()
    return refused.value.reason


@pytest.mark.parametrize("filters", ["true", "false"])
def test_merged_run_branches_are_distinguished_from_unmerged_ones(
    remote: Repository, server: GitServer, branches: dict[str, str], make_refs: MakeRefs, tmp_path: Path, filters: str
) -> None:
    """The check downloads no file of the repository where the server supports that."""
    remote.git("config", "uploadpack.allowFilter", filters)
    refs = make_refs()
    found = refs.found()
    assert {each.name: each.commit for each in found} == branches
    assert states(found) == {"run-merged": "merged", "run-tip": "merged", "run-own": "unmerged"}
    assert server.passwords() == {None, READ}
    copy = Repository(tmp_path / "copy.git", remote.home)
    kinds = copy.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert (b"tree" in kinds) is (filters == "false")
    remote.git("tag", "-d", "v1")
    merged = next(each for each in found if each.name == "run-merged")
    assert (again := refs.again("run-merged")) is not None
    assert again.state == "unmerged", "what held it is gone"
    on_top = remote.git("commit-tree", "-p", merged.commit, "-m", "m", "main^{tree}").decode().strip()
    remote.git("update-ref", "refs/heads/main", on_top)
    assert refs.again("run-merged") == merged


def test_a_branch_is_deleted_with_the_pushing_credential(
    remote: Repository, server: GitServer, branches: dict[str, str], make_refs: MakeRefs
) -> None:
    refs = make_refs()
    merged, _, tip = refs.found()
    remote.git("update-ref", "refs/heads/gatewright/run-tip", branches["run-own"])
    assert code(refs, tip) == "ref_moved"
    assert remote.head("gatewright/run-tip") == branches["run-own"]
    refs.delete(merged)
    assert refs.again("run-merged") is None
    assert {each.password for each in server.seen if "receive-pack" in each.path} == {None, PUSH}


def test_a_deletion_whose_answer_is_lost_is_found_and_no_failure(
    remote: Repository, server: GitServer, branches: dict[str, str], make_refs: MakeRefs
) -> None:
    refs = make_refs()
    found = refs.found()
    server.swallow = True
    refs.delete(found[0])
    assert not remote.exists("refs/heads/gatewright/run-merged")


def test_a_refused_branch_deletion_is_quoted_and_the_next_succeeds(
    remote: Repository, branches: dict[str, str], make_refs: MakeRefs
) -> None:
    hook = remote.path / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" != refs/heads/gatewright/run-merged ] || { echo protected by the owner >&2; exit 1; }\n')
    hook.chmod(0o755)
    refs = make_refs()
    merged, _, tip = refs.found()
    with pytest.raises(GitError, match="protected by the owner") as refused:
        refs.delete(merged)
    assert refused.value.reason == "deletion_refused"
    refs.delete(tip)
    assert remote.exists("refs/heads/gatewright/run-merged")
    assert not remote.exists("refs/heads/gatewright/run-tip")


def test_a_server_that_lets_nothing_be_deleted_is_asked_once(
    remote: Repository, server: GitServer, branches: dict[str, str], make_refs: MakeRefs
) -> None:
    refs = make_refs(push=READ)
    merged, _, tip = refs.found()
    assert code(refs, merged) == "repository_access_denied"
    asked = len(server.seen)
    assert code(refs, tip) == "repository_access_denied"
    assert len(server.seen) == asked
    assert remote.exists("refs/heads/gatewright/run-merged")


def test_a_history_larger_than_the_space_is_not_fetched(branches: dict[str, str], make_refs: MakeRefs) -> None:
    with pytest.raises(GitError) as refused:
        make_refs(most=1 << 10).found()
    assert refused.value.reason == "repository_too_large"


def test_names_that_git_would_not_have_are_no_branches_and_no_files(
    certificate: Path, make_refs: MakeRefs, tmp_path: Path
) -> None:
    names = ("run-1", "../../../../../escaped", "--exec=x", "a\x1b[2J", "x.lock")

    def say(client: ssl.SSLSocket) -> None:
        told = [b"1" * 40 + b" refs/heads/gatewright/" + name.encode() for name in names]
        told[0] += b"\0 ofs-delta"
        lines = b"".join(b"%04x" % (len(line) + 5) + line + b"\n" for line in told)
        body = b"001e# service=git-upload-pack\n0000" + lines + b"0000"
        client.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )

    with hostile_server(certificate, say) as port:
        found = make_refs(f"https://127.0.0.1:{port}/x.git").found()
    assert states(found) == {"--exec=x": "unmerged", "run-1": "unmerged"}
    assert not (tmp_path / "copy.git").exists()
