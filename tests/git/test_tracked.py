"""An environment that a repository tracks shows commands what a committer chose: it is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.tracked import refuse_tracked_environment, refuse_tracked_folder
from tests.git.repositories import MakeRepository, Repository

SETTINGS = b"home = /home/secret\n"


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository()


async def open_mirror(repository: Repository, mirrors: Mirrors, name: str = "HEAD") -> tuple[Mirror, str]:
    mirror = await mirrors.open(repository.url)
    return mirror, await mirror.resolve(name)


async def refused(prefix: Path, mirror: Mirror, baseline: str) -> str:
    with pytest.raises(DeniedError) as caught:
        await refuse_tracked_environment(prefix, mirror, baseline)
    assert caught.value.reason == "environment_tracked"
    assert str(prefix.parent) in caught.value.message
    return caught.value.message


def make_prefix(place: Path) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").write_bytes(SETTINGS)
    return place


@pytest.mark.parametrize("place", [".venv", "tools/python", "a b/ü"])
async def test_environment_that_the_baseline_tracks_is_refused(repository: Repository, mirrors: Mirrors, place: str) -> None:
    repository.commit({f"{place}/pyvenv.cfg": SETTINGS})
    (repository.path / place / "bin").mkdir()
    await refused(repository.path / place, *await open_mirror(repository, mirrors))
    with pytest.raises(DeniedError):
        refuse_tracked_folder(repository.path / place)


async def test_environment_that_only_the_baseline_tracks_is_refused(repository: Repository, mirrors: Mirrors) -> None:
    """Taken out of the index, the files of the commit still lie there."""
    repository.commit({".venv/pyvenv.cfg": SETTINGS})
    mirror, baseline = await open_mirror(repository, mirrors)
    repository.git("rm", "-r", "--cached", "--quiet", ".venv")
    assert (repository.path / ".venv/pyvenv.cfg").exists()
    await refused(repository.path / ".venv", mirror, baseline)


async def test_environment_that_another_branch_left_is_refused(repository: Repository, mirrors: Mirrors) -> None:
    """The run begins on main, but what lies there is what the branch that is checked out tracks."""
    repository.git("switch", "--quiet", "--create", "evil")
    repository.commit({".venv/pyvenv.cfg": SETTINGS})
    await refused(repository.path / ".venv", *await open_mirror(repository, mirrors, "main"))


async def test_environment_in_a_clone_of_the_target_is_refused(
    repository: Repository, mirrors: Mirrors, tmp_path: Path
) -> None:
    """The target is another folder, or another host, and its files came with a clone."""
    repository.commit({".venv/pyvenv.cfg": SETTINGS})
    repository.git("clone", "--quiet", repository.url, str(tmp_path / "clone"))
    await refused(tmp_path / "clone/.venv", *await open_mirror(repository, mirrors))


@pytest.mark.parametrize("tracked", ["link", "folder on the way"])
async def test_link_that_the_repository_tracks_is_refused(
    repository: Repository, mirrors: Mirrors, tmp_path: Path, tracked: str
) -> None:
    """``.venv`` is a tracked link to a folder of the host: once it is followed, nothing shows where it came from."""
    make_prefix(tmp_path / "host" / "env")
    if tracked == "link":
        (repository.path / ".venv").symlink_to(tmp_path / "host" / "env")
        prefix = repository.path / ".venv"
    else:
        (repository.path / "tools").symlink_to(tmp_path / "host")
        prefix = repository.path / "tools" / "env"
    repository.commit({})
    await refused(prefix, *await open_mirror(repository, mirrors))
    with pytest.raises(DeniedError):
        refuse_tracked_folder(prefix)
    # The operator may name it by what it is.
    refuse_tracked_folder(tmp_path / "host" / "env")


async def test_environment_that_holds_the_repository_is_refused(repository: Repository, mirrors: Mirrors) -> None:
    (repository.path / "bin").mkdir()
    for prefix in (repository.path, repository.path.parent):
        await refused(prefix, *await open_mirror(repository, mirrors))


async def test_environment_beside_what_is_tracked_is_served(
    repository: Repository, mirrors: Mirrors, make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository.commit({".gitignore": b".venv/\n", ".venv-notes/x": b"x\n", "env/README": b"x\n"})
    ignored = make_prefix(repository.path / ".venv")
    other = make_prefix(make_repository("other").path / ".venv")
    outside = make_prefix(tmp_path / "env")
    (tmp_path / "link-to-env").symlink_to(outside)
    (tmp_path / ".git").mkdir()  # a folder of that name, and no repository
    mirror, baseline = await open_mirror(repository, mirrors)
    for prefix in (ignored, other, outside, tmp_path / "link-to-env"):
        await refuse_tracked_environment(prefix, mirror, baseline)
    # The same places, once the baseline tracks a file there.
    repository.git("add", "--force", ".venv")
    repository.git("commit", "--quiet", "--message", "tracked")
    assert "tracks .venv" in await refused(ignored, *await open_mirror(repository, mirrors))


async def test_index_that_is_a_pipe_is_not_waited_for(repository: Repository, mirrors: Mirrors) -> None:
    prefix = make_prefix(repository.path / ".venv")
    mirror, baseline = await open_mirror(repository, mirrors)
    (repository.path / ".git/index").unlink()
    os.mkfifo(repository.path / ".git/index")
    await refused(prefix, mirror, baseline)


async def test_index_of_a_linked_worktree_counts(repository: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    linked = Repository(tmp_path / "linked", repository.home)
    linked.commit({".venv/pyvenv.cfg": SETTINGS})
    await refused(tmp_path / "linked/.venv", *await open_mirror(repository, mirrors, "main"))
    await refuse_tracked_environment(make_prefix(repository.path / ".venv"), *await open_mirror(repository, mirrors, "main"))
