"""The branches that runs have left: listed with what they are, and tidied only where nothing is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.operations.run_branches import listed, planned, tidy
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
    plan = planned(listed(repository), (), force=False)
    git(repository, "branch", "-f", "gatewright/run-merged", "gatewright/run-unmerged")
    (done,) = tidy(repository, plan)
    assert done.code == "ref_moved"
    assert "gatewright/run-merged" in branches(repository)


def test_a_link_among_the_folders_of_refs_does_not_lead_a_deletion_out(
    repository: Path, gatewright: Command, tmp_path: Path
) -> None:
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
