"""The home of a repository survives whatever its user does to the work tree, and no repository can bring one along."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.home import find_home, make_home
from gatewright.errors import ConfigurationError
from tests.cli.conftest import Command, MakeRepository


def git(here: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always")
    return subprocess.run(("git", *identity, *words), cwd=here, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(make_repository: MakeRepository) -> Path:
    """A repository with a home that holds a key, reached by both names."""
    top = make_repository("wörk here")
    home = find_home(None, top)
    assert make_home(home, top)
    (home / "key").write_text("private")
    assert (top / ".gatewright" / "key").read_text() == "private"
    return top


def test_git_clean_takes_the_link_and_neither_keys_nor_bundles(repository: Path) -> None:
    assert git(repository, "status", "--porcelain", "--ignored=no") == ""
    git(repository, "clean", "-fdxq")
    git(repository, "clean", "-ffdxq")
    assert not (repository / ".gatewright").exists()
    home = find_home(None, repository)
    assert (home / "key").read_text() == "private"
    assert not make_home(home, repository)
    assert (repository / ".gatewright" / "key").read_text() == "private"


def test_stash_and_other_branches_leave_it_alone(repository: Path) -> None:
    (repository / "a.txt").write_text("b\n")
    git(repository, "stash", "-u", "-q")
    git(repository, "switch", "-q", "--orphan", "other")
    assert (find_home(None, repository) / "key").read_text() == "private"
    assert (repository / ".gatewright" / "key").read_text() == "private"


def test_linked_work_trees_share_it(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked))
    (linked / "deep").mkdir()
    home = find_home(None, linked / "deep")
    assert home.samefile(find_home(None, repository))
    make_home(home, linked / "deep")
    assert (linked / ".gatewright" / "key").read_text() == "private"
    assert git(linked, "status", "--porcelain") == "?? deep/\n" or git(linked, "status", "--porcelain") == ""


def test_a_repository_that_moves_takes_it_along_and_its_work_tree_finds_it_again(repository: Path, tmp_path: Path) -> None:
    linked, moved = tmp_path / "linked", tmp_path / "elsewhere" / "moved"
    git(repository, "worktree", "add", "-q", str(linked))
    make_home(find_home(None, linked), linked)
    moved.parent.mkdir()
    repository.rename(moved)
    assert (moved / ".gatewright" / "key").read_text() == "private"
    git(moved, "worktree", "repair", str(linked))
    home = find_home(None, linked)
    make_home(home, linked)
    assert (linked / ".gatewright" / "key").read_text() == "private"


def test_a_clone_does_not_carry_it(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "clone")
    assert find_home(None, tmp_path / "clone") == tmp_path / "clone" / ".git" / "gatewright"
    assert not find_home(None, tmp_path / "clone").exists()


def test_a_submodule_has_its_own_and_keeps_it(repository: Path, make_repository: MakeRepository) -> None:
    git(repository, "submodule", "--quiet", "add", str(make_repository("part")), "part")
    part = repository / "part"
    home = find_home(None, part)
    make_home(home, part)
    (home / "key").write_text("of the part")
    shutil.rmtree(part)
    git(repository, "submodule", "--quiet", "update", "--init")
    assert (find_home(None, part) / "key").read_text() == "of the part"
    assert (find_home(None, repository) / "key").read_text() == "private"


def test_a_home_of_old_is_found_where_it_was(make_repository: MakeRepository) -> None:
    top = make_repository("r")
    (top / ".gatewright").mkdir()
    assert find_home(None, top) == top / ".gatewright"
    make_home(top / ".gatewright", top)
    assert not (top / ".gatewright").is_symlink()
    assert not (top / ".git" / "gatewright").exists()


def test_a_commit_that_brings_a_home_along_does_not_take_the_place_of_ones_own(repository: Path) -> None:
    (repository / ".gatewright").unlink()
    (repository / ".gatewright" / "keys").mkdir(parents=True)
    (repository / ".gatewright" / "keys" / "gatekeeper.pem").write_text("known to others")
    git(repository, "add", "-f", ".gatewright")
    home = find_home(None, repository)
    assert (home / "key").read_text() == "private"


def test_a_link_in_the_place_of_the_home_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    top = make_repository("r")
    (top / ".git" / "gatewright").symlink_to(tmp_path / "not-there-yet")
    with pytest.raises(ConfigurationError) as refused:
        find_home(None, top)
    assert refused.value.reason == "home_not_own"


def test_a_name_that_is_taken_is_left_as_it_is(make_repository: MakeRepository, tmp_path: Path) -> None:
    top = make_repository("r")
    (top / ".gatewright").symlink_to(tmp_path / "gone")
    home = top / ".git" / "gatewright"
    make_home(home, top)
    assert (top / ".gatewright").readlink() == tmp_path / "gone"
    assert find_home(None, top) == home


def test_init_in_a_repository_makes_a_key_that_a_cleaning_leaves(
    gatewright: Command, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make_repository("r")
    monkeypatch.chdir(top)
    (first,) = gatewright("init", "--json").documents
    git(top, "clean", "-ffdxq")
    (second,) = gatewright("init", "--json").documents
    assert (first["created"], second["created"]) == (True, False)
    assert first["key_id"] == second["key_id"]
    assert Path(first["home"]) == top / ".git" / "gatewright"
