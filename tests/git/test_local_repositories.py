"""Where a repository lies on this host: what is taken for its folders, and what is not because only one side says so."""

from __future__ import annotations

import contextlib
import shutil
import socket
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.host.local_repository import find_repository
from gatewright.git.mirror import Mirrors
from tests.git.repositories import MakeRepository, Repository

REF = "refs/heads/gatewright/run-1"


async def fetch_and_land(address: str, mirrors: Mirrors, repository: Repository) -> None:
    mirror = await mirrors.open(address)
    commit = await mirror.resolve("HEAD")
    await mirror.push(commit, REF, expected=None)
    assert repository.head(REF) == commit


@pytest.fixture
def source(make_repository: MakeRepository) -> Repository:
    return make_repository()


async def test_linked_worktree_is_served(source: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    source.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    await fetch_and_land(str(tmp_path / "linked"), mirrors, source)
    found = find_repository(str(tmp_path / "linked"))
    assert (found.git_dir, found.common) == (source.path / ".git/worktrees/linked", source.path / ".git")


async def test_submodule_is_served(source: Repository, make_repository: MakeRepository, mirrors: Mirrors) -> None:
    outer = make_repository("outer", files={"x": b"x\n"})
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source.url, "inner")
    inner = Repository(outer.path / "inner", outer.home)
    assert (inner.path / ".git").is_file()
    await fetch_and_land(inner.url, mirrors, inner)
    # As git-annex keeps a submodule.
    (inner.path / ".git").unlink()
    (inner.path / ".git").symlink_to("../.git/modules/inner")
    assert find_repository(inner.url).common == outer.path / ".git/modules/inner"


async def test_separate_git_folder_is_served_when_it_agrees(source: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    source.git("clone", "--quiet", f"--separate-git-dir={tmp_path / 'apart'}", source.url, str(tmp_path / "work"))
    work = Repository(tmp_path / "work", source.home)
    with pytest.raises(GitError, match=r"config core\.worktree") as caught:
        await mirrors.open(work.url)
    assert caught.value.reason == "repository_leads_elsewhere"
    work.configure(core__worktree=work.path)
    await fetch_and_land(work.url, mirrors, work)


@pytest.mark.parametrize("address", ["bare.git", "bare"])
async def test_bare_repository_is_served(source: Repository, mirrors: Mirrors, tmp_path: Path, address: str) -> None:
    source.git("clone", "--quiet", "--bare", source.url, str(tmp_path / "bare.git"))
    await fetch_and_land(str(tmp_path / address), mirrors, Repository(tmp_path / "bare.git", source.home))


@pytest.mark.parametrize("name", ["with spaces", "Übung", "a:b", "quote'd"])
async def test_odd_names_are_served(make_repository: MakeRepository, mirrors: Mirrors, name: str) -> None:
    repository = make_repository(name)
    await fetch_and_land(repository.url, mirrors, repository)


async def test_path_through_links_and_git_folder_itself_are_served(
    source: Repository, mirrors: Mirrors, tmp_path: Path
) -> None:
    (tmp_path / "current").symlink_to(source.path)
    for address in (str(tmp_path / "current"), str(source.path / ".git"), source.path.as_uri()):
        await fetch_and_land(address, mirrors, source)
        source.git("update-ref", "-d", REF)
    assert find_repository(str(tmp_path / "current")) == find_repository(source.url)


async def test_packed_refs_and_borrowed_objects_are_served(source: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    source.git("clone", "--quiet", "--reference", source.url, source.url, str(tmp_path / "borrowing"))
    borrowing = Repository(tmp_path / "borrowing", source.home)
    borrowing.git("pack-refs", "--all")
    assert (borrowing.path / ".git/objects/info/alternates").exists()
    await fetch_and_land(borrowing.url, mirrors, borrowing)


async def test_links_where_git_does_not_look_are_no_matter(source: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("*.log\n")
    hooks, exclude = source.path / ".git/hooks", source.path / ".git/info/exclude"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.symlink_to(tmp_path)
    exclude.parent.mkdir(exist_ok=True)
    exclude.unlink(missing_ok=True)
    exclude.symlink_to(tmp_path / "mine")
    (source.path / ".git/lfs").symlink_to(tmp_path)
    with socket.socket(socket.AF_UNIX) as watcher:
        # By its name alone: the address of a socket has space for 107 bytes, whatever folder tests run in.
        with contextlib.chdir(source.path / ".git"):
            watcher.bind("fsmonitor--daemon.ipc")
        await fetch_and_land(source.url, mirrors, source)


@pytest.fixture
def victim(make_repository: MakeRepository) -> Repository:
    return make_repository("victim", files={"private": b"private\n"})


async def refused(address: Path, mirrors: Mirrors, victim: Repository) -> None:
    before = victim.git("for-each-ref")
    with pytest.raises(GitError) as caught:
        await mirrors.open(str(address))
    assert caught.value.reason == "repository_leads_elsewhere"
    assert victim.git("for-each-ref") == before


@pytest.mark.parametrize("form", ["file", "link"])
async def test_pointer_to_a_repository_that_does_not_know_of_it_is_refused(
    victim: Repository, mirrors: Mirrors, tmp_path: Path, form: str
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    if form == "file":
        (planted / ".git").write_text(f"gitdir: {victim.path}/.git\n")
    else:
        (planted / ".git").symlink_to(victim.path / ".git")
    await refused(planted, mirrors, victim)


async def test_worktree_that_another_one_was_made_for_is_refused(victim: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    victim.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    planted = tmp_path / "planted"
    planted.mkdir()
    shutil.copy(tmp_path / "linked/.git", planted / ".git")
    await refused(planted, mirrors, victim)


@pytest.mark.parametrize("way", ["absolute", "relative"])
async def test_common_folder_of_another_repository_is_refused(
    source: Repository, victim: Repository, mirrors: Mirrors, way: str
) -> None:
    named = str(victim.path / ".git") if way == "absolute" else "../../victim/.git"
    (source.path / ".git/commondir").write_text(f"{named}\n")
    await refused(source.path, mirrors, victim)


async def test_repository_hidden_in_the_git_folder_is_refused(source: Repository, victim: Repository, mirrors: Mirrors) -> None:
    (source.path / ".git/.git").write_text(f"gitdir: {victim.path}/.git\n")
    await refused(source.path, mirrors, victim)
    await refused(source.path / ".git", mirrors, victim)


async def test_folder_that_is_no_repository_is_named(mirrors: Mirrors, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(GitError, match=name) as caught:
            await mirrors.open(str(tmp_path / name))
        assert caught.value.reason == "repository_unreadable"


async def test_folder_that_is_exchanged_after_the_look_is_not_written(source: Repository, tmp_path: Path) -> None:
    found = find_repository(source.url)
    source.path.rename(tmp_path / "away")
    source.path.symlink_to(tmp_path / "away")
    with pytest.raises(GitError) as caught, found.held():
        pass
    assert caught.value.reason == "repository_leads_elsewhere"
