"""Which addresses a pattern covers: whole components and exact hosts, and nothing that could be read in two ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import MalformedError
from gatewright.git.access.repository_patterns import check_pattern, check_ref_pattern, covers_address, ref_covered
from tests.git.repositories import MakeRepository


@pytest.mark.parametrize(
    ("address", "pattern"),
    [
        ("https://forge.example/acme/tool.git", "https://forge.example/acme"),
        ("https://forge.example/acme/tool.git", "https://forge.example/acme/tool.git"),
        ("https://FORGE.example:443/acme/tool", "https://forge.example/acme/"),
        ("https://forge.example/any", "https://forge.example/"),
        ("ssh://git@forge.example/acme/tool", "ssh://git@forge.example:22/acme"),
        ("git@forge.example:acme/tool", "git@forge.example:acme"),
        ("git@forge.example:acme/tool", "git@forge.example:"),
        ("/srv/git/tool.git", "/srv/git"),
        ("/srv//git/tool.git/", "/srv/git"),
        ("file:///srv/git/tool.git", "/srv/git/"),
        ("/anything", "/"),
        ("ext::sh -c id", "*"),
    ],
)
def test_a_place_covers_itself_and_what_lies_below(address: str, pattern: str) -> None:
    assert covers_address(address, (check_pattern(pattern),))


@pytest.mark.parametrize(
    ("address", "pattern"),
    [
        ("https://forge.example/acme-evil/tool", "https://forge.example/acme"),
        ("https://forge.example/acme", "https://forge.example/acme/tool"),
        ("https://forge.example.evil/acme/tool", "https://forge.example/acme"),
        ("https://evil.example/https://forge.example/acme", "https://forge.example/acme"),
        ("https://forge.example./acme/tool", "https://forge.example/acme"),
        ("https://forge.example@evil.example/acme/tool", "https://forge.example/acme"),
        ("https://forge.example:8443/acme/tool", "https://forge.example/acme"),
        ("http://forge.example/acme/tool", "https://forge.example/acme"),
        ("https://forge.example/acme/../other/tool", "https://forge.example/acme"),
        ("https://forge.example/acme/%2e%2e/other", "https://forge.example/acme"),
        ("https://forge.example/acme%2fother", "https://forge.example/acme"),
        ("https://forge.example/acme/tool?x=1", "https://forge.example/acme"),
        ("https://forge.example\\@evil.example/acme", "https://forge.example/"),
        ("https://fоrge.example/acme/tool", "https://forge.example/acme"),  # noqa: RUF001 - the first o is Cyrillic
        ("https://forge.example/ACME/tool", "https://forge.example/acme"),
        ("ssh://other@forge.example/acme/tool", "ssh://git@forge.example/acme"),
        ("git@forge.example:acme/../other", "git@forge.example:acme"),
        ("git@forge.example:/acme/tool", "git@forge.example:acme"),
        ("ssh://git@forge.example/acme/tool", "git@forge.example:acme"),
        ("/srv/git/../../etc", "/srv/git"),
        ("/srv/gitlab/tool", "/srv/git"),
        ("file:///srv/git/%2e%2e/etc", "/srv/git"),
        ("srv/git/tool", "/"),
        ("ext::sh -c id", "/"),
        ("--upload-pack=id", "/"),
        ("", "/"),
    ],
)
def test_what_only_looks_alike_is_not_covered(address: str, pattern: str) -> None:
    assert not covers_address(address, (check_pattern(pattern),))


def test_a_link_to_a_repository_outside_is_not_covered(make_repository: MakeRepository, tmp_path: Path) -> None:
    """A publisher that may write into its own folder would name any repository of the gatekeeper's user so."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    other, own = make_repository("other"), make_repository("allowed/own")
    (allowed / "link").symlink_to(other.path)
    (allowed / "inside").symlink_to(own.path)
    other.git("worktree", "add", "--quiet", "-b", "x", str(allowed / "worktree"))
    named = ("own", "own/.git", "inside", "missing", "link", "worktree")
    assert [name for name in named if covers_address(f"{allowed}/{name}", (check_pattern(str(allowed)),))] == [*named[:4]]
    both = (str(allowed), str(tmp_path / "other"))
    assert all(covers_address(f"{allowed}/{name}", both) for name in named)


def test_a_path_named_through_a_link_covers_its_target(make_repository: MakeRepository, tmp_path: Path) -> None:
    make_repository("volume/own")
    (tmp_path / "srv").symlink_to(tmp_path / "volume")
    assert covers_address(f"{tmp_path}/srv/own", (check_pattern(f"{tmp_path}/srv"),))
    assert not covers_address(f"{tmp_path}/volume/own", (check_pattern(f"{tmp_path}/srv"),))


def test_nothing_is_covered_by_no_pattern() -> None:
    assert not covers_address("https://forge.example/acme", ())


@pytest.mark.parametrize(
    "pattern", ["", "forge.example/acme", "https://", "https://forge.example/a/../b", "**", "ext::sh", "/a/./b"]
)
def test_a_pattern_that_cannot_be_compared_is_refused(pattern: str) -> None:
    with pytest.raises(MalformedError):
        check_pattern(pattern)


def test_refs_are_compared_whole_or_by_their_folder() -> None:
    patterns = tuple(map(check_ref_pattern, ("refs/heads/main", "refs/heads/bots/*")))
    assert [ref for ref in ("refs/heads/main", "refs/heads/bots/a", "refs/heads/bots/a/b") if ref_covered(ref, patterns)] == [
        "refs/heads/main",
        "refs/heads/bots/a",
        "refs/heads/bots/a/b",
    ]
    others = ("refs/heads/main2", "refs/heads/bots", "refs/heads/botsy/a", "refs/tags/main", "main", "")
    assert not [ref for ref in others if ref_covered(ref, patterns)]


@pytest.mark.parametrize("pattern", ["*", "main", "refs/replace/*", "refs/heads/*/x", "refs/heads/..", ""])
def test_a_pattern_that_is_no_ref_is_refused(pattern: str) -> None:
    with pytest.raises(MalformedError):
        check_ref_pattern(pattern)
