"""The branches that runs have left: listed with what they are, and tidied only where nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.app.cli.branches import delete_branches, list_branches, plan_removal
from tests.cli.conftest import Command, MakeRepository


def git(here: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(("git", *identity, *words), cwd=here, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(make_repository: MakeRepository, tmp_path: Path) -> Path:
    """A repository with a branch of a run of each kind, and one of its user's that only looks like one."""
    top = make_repository("r")
    for name in ("merged", "unmerged", "in-use", "linked"):
        git(top, "switch", "-q", "-c", f"gatewright/run-{name}", "HEAD")
        (top / f"{name}.txt").write_text(f"{name}\n")
        git(top, "add", ".")
        git(top, "commit", "-q", "-m", f"change {name}")
        git(top, "switch", "-q", "-")
    git(top, "merge", "-q", "--no-ff", "-m", "merge", "gatewright/run-merged")
    git(top, "branch", "gatewright-notes")
    git(top, "worktree", "add", "-q", str(tmp_path / "linked"), "gatewright/run-linked")
    git(top, "switch", "-q", "gatewright/run-in-use")
    return top


def branches(top: Path) -> set[str]:
    return set(git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads/gatewright/").splitlines())


def test_branches_of_runs_are_listed_with_what_they_are(
    repository: Path, gatewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.joinpath(".git/gatewright/worker/mirrors/x.git/refs/gate/keep").mkdir(parents=True)
    repository.joinpath(".git/gatewright/worker/mirrors/x.git/refs/gate/keep", "a" * 40).write_text("a" * 40)
    monkeypatch.chdir(repository)
    (document,) = gatewright("refs", "list", "--json").documents
    states = {each["name"]: each["state"] for each in document["refs"]}
    assert states == {
        "run-merged": "merged",
        "run-unmerged": "unmerged",
        "run-in-use": "checked out",
        "run-linked": "checked out",
    }
    assert document["mirrors"] == [{"mirror": "worker/mirrors/x.git", "refs": 1}]
    out = gatewright("refs", "list").out
    assert "gatewright/run-unmerged" in out
    assert "change unmerged" in out


def test_nothing_is_deleted_before_the_plan_was_seen(repository: Path, gatewright: Command) -> None:
    before = branches(repository)
    said = gatewright("refs", "tidy", "--repo", repository)
    assert said.exit_code == 0
    assert "goes   gatewright/run-merged at " in said.out
    assert "stays  gatewright/run-unmerged at " in said.out
    assert "--yes" in said.out
    assert branches(repository) == before


def test_merged_branches_go_and_what_is_in_use_or_unmerged_stays(repository: Path, gatewright: Command) -> None:
    commit = git(repository, "rev-parse", "gatewright/run-merged")
    (document,) = gatewright("refs", "tidy", "--repo", repository, "--yes", "--json").documents
    assert document["plan"] == ["run-merged"]
    assert document["done"] == [{"name": "run-merged", "commit": commit, "code": "", "message": ""}]
    assert branches(repository) == {"gatewright/run-unmerged", "gatewright/run-in-use", "gatewright/run-linked"}
    assert git(repository, "rev-parse", "gatewright-notes")


def test_an_unmerged_branch_goes_only_when_it_is_named_and_forced(repository: Path, gatewright: Command) -> None:
    words = ("refs", "tidy", "--repo", repository, "--yes")
    assert gatewright(*words, "run-unmerged").exit_code == 0
    assert "gatewright/run-unmerged" in branches(repository)
    assert gatewright(*words, "--force").exit_code == 2, "force without a name"
    assert gatewright(*words, "--force", "run-no-such").exit_code == 2
    assert gatewright(*words, "--force", "run-unmerged", "run-in-use", "run-linked").exit_code == 0
    assert branches(repository) == {"gatewright/run-merged", "gatewright/run-in-use", "gatewright/run-linked"}


def test_a_branch_that_has_moved_since_the_plan_is_left(repository: Path) -> None:
    plan = plan_removal(list_branches(repository), (), force=False)
    git(repository, "branch", "-f", "gatewright/run-merged", "gatewright/run-unmerged")
    (done,) = delete_branches(repository, plan)
    assert done.code == "ref_moved"
    assert "gatewright/run-merged" in branches(repository)


def test_a_link_among_ref_folders_redirects_no_deletion(repository: Path, gatewright: Command, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (repository / ".git/logs/refs/heads/gatewright").rename(victim)
    (repository / ".git/logs/refs/heads/gatewright").symlink_to(victim)
    before = sorted(path.name for path in victim.iterdir())
    said = gatewright("refs", "tidy", "--repo", repository, "--yes")
    assert said.exit_code == 1
    assert "[ref_folder_is_link]" in said.out
    assert sorted(path.name for path in victim.iterdir()) == before


def test_a_repository_without_runs_has_nothing_to_tidy(gatewright: Command, make_repository: MakeRepository) -> None:
    said = gatewright("refs", "tidy", "--repo", make_repository("r"), "--yes")
    assert (said.exit_code, said.out) == (0, "no run has left a branch here\n")


def test_many_branches_are_listed_with_few_git_processes(repository: Path, tmp_path: Path) -> None:
    git(repository, "branch", "release", "HEAD")  # of unmerged work: a second branch of the owner's that has branches of runs
    heads = [git(repository, "rev-parse", name) for name in ("gatewright/run-merged", "release", "gatewright/run-unmerged")]
    lines = (f"create refs/heads/gatewright/run-{number:03} {heads[number % 3]}\n" for number in range(60))
    subprocess.run(("git", "update-ref", "--stdin"), cwd=repository, input="".join(lines), text=True, check=True)
    counted = tmp_path / "counted"
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "$@" >>{counted}\nexec {shutil.which("git")} "$@"\n')
    shim.chmod(0o755)
    words = (sys.executable, "-m", "gatewright.app.cli.main", "refs", "list", "--json")
    variables = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    document = json.loads(subprocess.run(words, cwd=repository, env=variables, check=True, capture_output=True).stdout)
    states = {each["name"]: (each["state"], each["where"]) for each in document["refs"]}
    assert len(states) == 64
    assert states["run-000"][0] == "merged"
    assert states["run-001"] == ("merged", "refs/heads/release")
    assert states["run-002"] == ("unmerged", "")
    assert len(counted.read_text().splitlines()) < 20


def test_a_tag_of_a_file_does_not_stop_the_list(repository: Path) -> None:
    git(repository, "tag", "a-file", "HEAD:a.txt")
    git(repository, "tag", "-a", "-m", "of a file", "a-noted-file", "HEAD:a.txt")
    git(repository, "tag", "-a", "-m", "a release", "v1", "gatewright/run-unmerged")
    states = {each.name: (each.state, each.where) for each in list_branches(repository)}
    assert states["run-unmerged"] == ("merged", "refs/tags/v1")


def test_a_branch_of_a_run_that_names_no_commit_is_unmerged(repository: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:a.txt")
    (repository / ".git/refs/heads/gatewright/run-odd").write_text(f"{blob}\n")
    assert {each.name: each.state for each in list_branches(repository)}["run-odd"] == "unmerged"
