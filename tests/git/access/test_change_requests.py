"""The head of a change request from a real server over smart HTTP, with the token that reads."""

from __future__ import annotations

from gatewright.contracts.vocabulary import SourceBranch
from gatewright.git.request_head import change_of_head, moved_fault, source_fault
from tests.git.access.conftest import MakeMirrors
from tests.git.access.servers import READ, GitServer
from tests.git.repositories import Repository

REF = "refs/pull/7/head"


def offer(remote: Repository, content: bytes) -> str:
    """Put a commit at ``refs/pull/7/head`` of a bare repository, on no branch."""
    blob = remote.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
    listed = remote.git("ls-tree", "main").decode()
    tree = remote.git("mktree", stdin=f"{listed}100644 blob {blob}\tnew.txt\n".encode()).decode().strip()
    commit = remote.git("commit-tree", tree, "-p", "main", "-m", "offered").decode().strip()
    remote.git("update-ref", REF, commit)
    return commit


async def test_a_head_is_fetched_and_compared_with_the_reading_token(
    server: GitServer, remote: Repository, make_mirrors: MakeMirrors
) -> None:
    head, main = offer(remote, b"new\n"), remote.head("main")
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    await mirror.ensure(main)
    change = await change_of_head(mirror, head, main)
    authors = tuple(f"{name} <{email}>" for name, email in change.authors)
    source = SourceBranch(name=REF, head=head, base=main, commits=1, authors=authors, ref=REF)
    assert await moved_fault(mirror, source) == ""
    assert await source_fault(mirror, source, main, await mirror.apply(main, change.patch)) == ""
    assert server.passwords() == {None, READ}
    offer(remote, b"newer\n")
    assert REF in await moved_fault(mirror, source)


async def test_a_hidden_head_is_not_judged(server: GitServer, remote: Repository, make_mirrors: MakeMirrors) -> None:
    head = offer(remote, b"new\n")
    remote.configure(uploadpack__hideRefs="refs/pull")
    mirror = await make_mirrors("gatekeeper").open(server.url("team/shop.git"))
    assert await moved_fault(mirror, SourceBranch(name=REF, head=head, base=head, commits=1, ref=REF))
