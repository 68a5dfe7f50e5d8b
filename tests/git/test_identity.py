"""One repository, many spellings: what must share a lock and a mirror, and what must not share objects or rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import MalformedError
from gatewright.git.host.identity import PROTOCOLS, mirror_keys, repository_identity
from gatewright.git.mirror import Mirrors
from gatewright.git.refs import parse_url
from tests.git.repositories import MakeRepository


@pytest.fixture
def spellings(make_repository: MakeRepository, tmp_path: Path) -> list[str]:
    """Of one local repository, in a folder whose name has to be encoded."""
    repository = make_repository("söurce code")
    (tmp_path / "link").symlink_to(repository.path)
    repository.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    path = repository.url
    return [
        path,
        f"{path}/",
        path.replace("/tmp", "//tmp"),
        f"{path}/.git",
        f"{path}/.git/",
        repository.path.as_uri(),
        f"file://{path.replace(' ', '%20')}",
        str(tmp_path / "link"),
        str(tmp_path / "link" / ".git"),
        str(tmp_path / "linked"),
        str(repository.path / ".git/worktrees/linked"),
    ]


def test_every_spelling_of_a_local_repository_is_the_same(spellings: list[str]) -> None:
    assert len({repository_identity(each) for each in spellings}) == 1


async def test_every_spelling_of_a_local_repository_shares_a_mirror(spellings: list[str], mirrors: Mirrors) -> None:
    opened = [await mirrors.open(each) for each in spellings]
    assert len({mirror.path for mirror in opened}) == 1
    # What HEAD is, is another question in a worktree of its own; the commit is the same here.
    assert len({await mirror.resolve("HEAD") for mirror in opened}) == 1


def test_two_addresses_have_two_mirrors() -> None:
    """Whether there is a repository or not; and so have remote ones that may well be the same."""
    first, second = (set(mirror_keys(parse_url(path, PROTOCOLS))) for path in ("/srv/a", "/srv/b"))
    assert not first & second
    assert first == set(mirror_keys(parse_url("file:///srv/a/", PROTOCOLS)))
    over = [parse_url(f"{scheme}://forge.example/acme/tool", PROTOCOLS) for scheme in ("https", "ssh")]
    assert mirror_keys(over[0]) != mirror_keys(over[1])


def test_other_repositories_are_others(make_repository: MakeRepository) -> None:
    inner = make_repository("one/two")
    outer = make_repository("one.git")
    assert repository_identity(inner.url) != repository_identity(outer.url)


@pytest.mark.parametrize(
    "spelling",
    [
        "https://forge.example/acme/tool",
        "https://FORGE.example/acme/tool.git",
        "https://forge.example:443/acme/tool/",
        "https://forge.example./Acme/Tool.git",
        "https://forge.example//acme/./tool",
        "https://forge.example/%61cme/tool",
        "ssh://git@forge.example/acme/tool",
        "ssh://git@forge.example:22/acme/tool.git",
        "git@forge.example:acme/tool.git",
        "git@forge.example:/acme/tool",
        "forge.example:acme/tool",
    ],
)
def test_every_spelling_of_a_remote_repository_is_the_same(spelling: str) -> None:
    assert repository_identity(spelling) == repository_identity("https://forge.example/acme/tool")


@pytest.mark.parametrize(
    "other",
    [
        "https://forge.example/acme/tools",
        "https://forge.example/tool",
        "https://forge.example.org/acme/tool",
        "https://forge.example:8443/acme/tool",
        "ssh://git@forge.example:2222/acme/tool",
        "/forge.example/acme/tool",
    ],
)
def test_another_remote_repository_is_another(other: str) -> None:
    assert repository_identity(other) != repository_identity("https://forge.example/acme/tool")


def test_what_is_no_address_has_no_identity() -> None:
    with pytest.raises(MalformedError):
        repository_identity("ext::sh -c id")
