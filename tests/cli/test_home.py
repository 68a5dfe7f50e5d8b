"""The home folder: where it is, that it survives what users do to the work tree, and that no repository brings one along."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.home import find_home, find_repository, make_home
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing.keys import create
from tests.cli.conftest import Command, MakeRepository


def test_new_home_is_private_and_ignored_by_git(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    home = find_home(None, repository)
    assert make_home(home)
    assert not make_home(home)
    assert home.stat().st_mode & 0o777 == 0o700
    status = subprocess.run(("git", "status", "--porcelain"), cwd=repository, capture_output=True, check=True)
    assert status.stdout == b""


def test_home_is_of_the_repository_s_top_whatever_its_subfolders_hold(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    deep = repository / "deep" / "er"
    deep.mkdir(parents=True)
    make_home(repository / "deep" / ".gatewright")
    make_home(repository.parent / ".gatewright")
    assert find_home(None, deep) == repository / ".git" / "gatewright"
    make_home(repository / ".gatewright")
    assert find_home(None, deep) == repository / ".gatewright"


def test_home_outside_of_any_repository_is_the_nearest_one_upwards(tmp_path: Path) -> None:
    make_home(tmp_path / "a" / ".gatewright")
    (tmp_path / "a" / "b").mkdir()
    assert find_home(None, tmp_path / "a" / "b") == tmp_path / "a" / ".gatewright"


def test_neither_home_nor_repository_is_looked_for_above_git_s_ceiling(
    make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stray repository around a folder of temporary files, say, is as little ours as it is git's."""
    stray = make_repository("stray")
    make_home(stray / ".gatewright")
    here = stray / "temporary" / "here"
    here.mkdir(parents=True)
    assert (find_repository(here), find_home(None, here)) == (stray, stray / ".gatewright")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", f"/nowhere:{stray / 'temporary'}")
    assert (find_repository(here), find_home(None, here)) == (None, here / ".gatewright")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here))
    assert find_repository(here) == stray, "git looks above where one stands, too"


def test_home_that_was_named_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find_home(tmp_path / "elsewhere", tmp_path) == tmp_path / "elsewhere"


def test_home_that_a_repository_brings_along_is_refused(make_repository: MakeRepository, gatewright: Command) -> None:
    """Its keys are known to whoever committed them, and its records could say anything."""
    repository = make_repository("r")
    planted = repository / ".gatewright" / "keys"
    planted.mkdir(parents=True)
    (planted / "gatekeeper.pem").write_text("known to others")
    subprocess.run(("git", "add", "-f", "."), cwd=repository, check=True)
    with pytest.raises(ConfigurationError) as refused:
        find_home(None, repository)
    assert refused.value.reason == "home_tracked"
    os.chdir(repository)
    said = gatewright("runs", "--json")
    assert said.exit_code == 3
    assert said.documents[0]["error"]["code"] == "home_tracked"


def track(repository: Path, *files: str) -> None:
    for name in files:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("known to others")
    subprocess.run(("git", "add", "-f", *files), cwd=repository, check=True)


@pytest.mark.parametrize("file", ["holds.json", "bus/operator.nk", "keys/trusted/theirs.pub", "runs/run-1/tombstone.dsse.json"])
def test_any_tracked_file_makes_a_home_the_repositorys(make_repository: MakeRepository, file: str) -> None:
    repository = make_repository("r")
    make_home(repository / ".gatewright")
    track(repository, f".gatewright/{file}")
    with pytest.raises(ConfigurationError) as refused:
        find_home(None, repository)
    assert refused.value.reason == "home_tracked"


def test_tracked_home_is_refused_when_the_environment_names_it(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository("r")
    track(repository, "tools/.gatewright/keys/gatekeeper.pem")
    (tmp_path / "link").symlink_to(repository / "tools")
    for named in (repository / "tools" / ".gatewright", tmp_path / "link" / ".gatewright"):
        with pytest.raises(ConfigurationError) as refused:
            find_home(named, tmp_path)
        assert refused.value.reason == "home_tracked"


def test_home_that_an_outer_repository_tracks_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    outer = make_repository("outer")
    track(outer, "a/.gatewright/keys/gatekeeper.pem")
    inner = make_repository("outer/a/inner")
    assert find_home(None, inner) == inner / ".git" / "gatewright"
    with pytest.raises(ConfigurationError) as refused:
        find_home(outer / "a" / ".gatewright", inner)
    assert refused.value.reason == "home_tracked"


def test_tracked_signing_key_that_the_environment_names_is_refused(
    make_repository: MakeRepository, gatewright: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = make_repository("r")
    key = repository / "gatekeeper.pem"
    create(key)
    subprocess.run(("git", "add", "-f", "gatekeeper.pem"), cwd=repository, check=True)
    monkeypatch.setenv("GATEWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GATEWRIGHT_KEY", str(key))
    assert gatewright("keys", "init", "--json").documents[0]["error"]["code"] == "key_tracked"


def test_stray_git_folder_above_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "here").mkdir()
    make_home(tmp_path / "here" / ".gatewright")
    assert find_home(None, tmp_path / "here") == tmp_path / "here" / ".gatewright"


def test_home_that_is_a_link_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository("r")
    make_home(tmp_path / "victim")
    (repository / ".gatewright").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigurationError):
        find_home(None, repository)


def test_repository_that_git_cannot_read_proves_nothing(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    make_home(repository / ".gatewright")
    (repository / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(ConfigurationError):
        find_home(None, repository)


def test_init_makes_home_and_key_once(gatewright: Command, tmp_path: Path) -> None:
    first, second = gatewright("init", "--json").documents[0], gatewright("init", "--json").documents[0]
    assert (first["created"], second["created"]) == (True, False)
    assert first["key_id"] == second["key_id"]
    assert (tmp_path / ".gatewright" / "keys" / "gatekeeper.pem").stat().st_mode & 0o777 == 0o600
    assert Path(first["public_key"]).is_file()


def git(here: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always")
    return subprocess.run(("git", *identity, *words), cwd=here, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(make_repository: MakeRepository) -> Path:
    """A repository with a home that holds a key."""
    top = make_repository("wörk here")
    home = find_home(None, top)
    assert make_home(home)
    (home / "key").write_text("private")
    return top


def files_of(work_tree: Path) -> set[str]:
    return {str(path.relative_to(work_tree)) for path in work_tree.rglob("*") if ".git" not in path.parts}


def test_nothing_is_written_into_the_work_tree(make_repository: MakeRepository) -> None:
    top = make_repository("r")
    before, excluded = files_of(top), (top / ".git" / "info" / "exclude").exists()
    make_home(find_home(None, top))
    assert files_of(top) == before
    assert (top / ".git" / "info" / "exclude").exists() == excluded


def test_bare_repository_has_its_home_inside(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    bare = tmp_path / "bare.git"
    assert find_repository(bare / "refs") == bare
    assert find_home(None, bare) == bare / "gatewright"
    make_home(bare / "gatewright")
    assert find_home(None, bare / "refs") == bare / "gatewright"


def test_bare_repository_that_a_work_tree_holds_is_not_taken_for_it(repository: Path) -> None:
    git(repository, "init", "-q", "--bare", "tests/data/planted.git")
    planted = repository / "tests" / "data" / "planted.git"
    make_home(planted / "gatewright")
    assert find_repository(planted) == repository
    assert find_home(None, planted) == repository / ".git" / "gatewright"


def test_git_clean_takes_neither_keys_nor_bundles(repository: Path) -> None:
    assert git(repository, "status", "--porcelain", "--ignored=no") == ""
    git(repository, "clean", "-fdxq")
    git(repository, "clean", "-ffdxq")
    home = find_home(None, repository)
    assert (home / "key").read_text() == "private"
    assert not make_home(home)


def test_stash_and_other_branches_leave_it_alone(repository: Path) -> None:
    (repository / "a.txt").write_text("b\n")
    git(repository, "stash", "-u", "-q")
    git(repository, "switch", "-q", "--orphan", "other")
    assert (find_home(None, repository) / "key").read_text() == "private"


def test_linked_work_trees_share_it(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked))
    (linked / "deep").mkdir()
    home = find_home(None, linked / "deep")
    assert home.samefile(find_home(None, repository))
    assert (home / "key").read_text() == "private"


def test_a_moved_repository_keeps_its_home_for_its_work_trees(repository: Path, tmp_path: Path) -> None:
    linked, moved = tmp_path / "linked", tmp_path / "elsewhere" / "moved"
    git(repository, "worktree", "add", "-q", str(linked))
    moved.parent.mkdir()
    repository.rename(moved)
    assert (find_home(None, moved) / "key").read_text() == "private"
    git(moved, "worktree", "repair", str(linked))
    assert (find_home(None, linked) / "key").read_text() == "private"


def test_a_clone_does_not_carry_it(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "clone")
    assert find_home(None, tmp_path / "clone") == tmp_path / "clone" / ".git" / "gatewright"
    assert not find_home(None, tmp_path / "clone").exists()


def test_a_submodule_has_its_own_and_keeps_it(repository: Path, make_repository: MakeRepository) -> None:
    git(repository, "submodule", "--quiet", "add", str(make_repository("part")), "part")
    part = repository / "part"
    home = find_home(None, part)
    make_home(home)
    (home / "key").write_text("of the part")
    shutil.rmtree(part)
    git(repository, "submodule", "--quiet", "update", "--init")
    assert (find_home(None, part) / "key").read_text() == "of the part"
    assert (find_home(None, repository) / "key").read_text() == "private"


def test_a_home_of_old_is_found_where_it_was(make_repository: MakeRepository) -> None:
    top = make_repository("r")
    (top / ".gatewright").mkdir()
    assert find_home(None, top) == top / ".gatewright"
    make_home(top / ".gatewright")
    assert not (top / ".git" / "gatewright").exists()


def test_a_home_brought_by_a_commit_is_not_used(repository: Path) -> None:
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


def test_link_of_an_older_version_is_left_as_it_is(make_repository: MakeRepository, tmp_path: Path) -> None:
    top = make_repository("r")
    (top / ".gatewright").symlink_to(tmp_path / "gone")
    home = top / ".git" / "gatewright"
    make_home(home)
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
