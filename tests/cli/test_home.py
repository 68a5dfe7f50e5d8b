"""The home folder: where it is, and that a repository cannot bring one along."""

from __future__ import annotations

import os
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
