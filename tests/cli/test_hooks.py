"""The hooks, driven by real `git commit` and `git push`: what keeps to the contract passes, what does not is stopped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.app.cli.hooks import find_hooks, judge_pushed, judge_staged
from gatewright.contracts import codec
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import Repository as RepositoryField
from tests.cli.conftest import Command
from tests.factories import make_contract
from tests.git.conftest import first_repository
from tests.git.conftest import make_repository as make_git_repository
from tests.git.repositories import IDENTITY, MakeRepository, Repository

__all__ = ["first_repository", "make_git_repository"]

Git = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def repository(make_git_repository: MakeRepository) -> Repository:
    return make_git_repository()


@pytest.fixture
def contract(repository: Repository, tmp_path: Path) -> Path:
    made = make_contract(
        repository=RepositoryField(url=repository.url),
        rollback=Rollback(strategy="worktree_drop", baseline_ref=repository.head()),
    )
    path = tmp_path / "contract.json"
    path.write_bytes(codec.encode(made))
    return path


@pytest.fixture
def git(repository: Repository) -> Git:
    """Plain git, as a person runs it."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(repository.home), **IDENTITY}
        return subprocess.run(
            ["git", *words], cwd=repository.path, env=environment, check=False, capture_output=True, text=True
        )

    return run


@pytest.fixture
def installed(gatewright: Command, repository: Repository, contract: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(repository.path)
    said = gatewright("hooks", "install", "--contract", contract)
    assert said.exit_code == 0, said.err
    return gatewright


def write(repository: Repository, name: str, text: str) -> None:
    path = repository.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_a_commit_inside_passes_and_one_outside_is_stopped(repository: Repository, git: Git) -> None:
    write(repository, "src/app.py", "changed\n")
    assert git("commit", "--quiet", "-am", "inside").returncode == 0
    head = repository.head()
    write(repository, "README.md", "mine\n")
    git("add", "README.md")
    stopped = git("commit", "--quiet", "-m", "outside")
    assert stopped.returncode != 0
    assert "README.md: outside the contract's paths [path_out_of_scope]" in stopped.stderr
    assert repository.head() == head


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_commit_all_is_judged_by_the_index_that_git_makes_for_it(repository: Repository, git: Git) -> None:
    write(repository, "README.md", "mine\n")
    stopped = git("commit", "--quiet", "-am", "outside")
    assert stopped.returncode != 0
    assert "path_out_of_scope" in stopped.stderr


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_a_partial_commit_is_judged_by_what_it_takes(repository: Repository, git: Git) -> None:
    write(repository, "README.md", "mine\n")
    write(repository, "src/app.py", "changed\n")
    git("add", "README.md")
    assert git("commit", "--quiet", "-m", "part", "--", "src/app.py").returncode == 0
    assert git("commit", "--quiet", "-m", "rest", "--", "README.md").returncode != 0


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_an_amended_commit_is_judged_whole(repository: Repository, git: Git) -> None:
    write(repository, "src/app.py", "changed\n")
    assert git("commit", "--quiet", "-am", "inside").returncode == 0
    write(repository, "README.md", "mine\n")
    git("add", "README.md")
    assert git("commit", "--quiet", "--amend", "--no-edit").returncode != 0


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_a_bypassed_commit_is_caught_at_the_push(repository: Repository, git: Git, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git("init", "--quiet", "--bare", str(remote))
    git("remote", "add", "origin", str(remote))
    write(repository, "src/app.py", "changed\n")
    assert git("commit", "--quiet", "-am", "inside").returncode == 0
    assert git("push", "--quiet", "origin", "HEAD:refs/heads/good").returncode == 0
    write(repository, "README.md", "mine\n")
    assert git("commit", "--quiet", "--no-verify", "-am", "outside").returncode == 0
    stopped = git("push", "--quiet", "origin", "HEAD~1:refs/heads/other", "HEAD:refs/heads/bad")
    assert stopped.returncode != 0
    assert "refs/heads/bad does not keep to the active contract" in stopped.stderr
    heads = git("ls-remote", "--heads", "origin").stdout
    assert "refs/heads/bad" not in heads
    assert "refs/heads/other" not in heads
    assert git("push", "--quiet", "origin", ":refs/heads/good").returncode == 0


@pytest.mark.usefixtures("installed")
def test_a_push_or_commit_without_a_changed_file_passes(repository: Repository) -> None:
    found, head = find_hooks(repository.path), repository.head()
    zero = "0" * 40
    lines = (f"refs/tags/v1 {head} refs/tags/v1 {zero}", f"(delete) {zero} refs/heads/old {head}")
    assert [(name, answer.passed, answer.judged_files) for name, answer in judge_pushed(found, lines)] == [
        ("refs/tags/v1", True, 0)
    ]
    assert judge_staged(found).passed


@pytest.mark.long
def test_a_hook_that_is_there_is_never_overwritten_silently_and_comes_back(
    gatewright: Command, repository: Repository, contract: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.path)
    hook = repository.path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho theirs >> ran\n")
    hook.chmod(0o755)
    refused = gatewright("hooks", "install", "--contract", contract)
    assert refused.exit_code == 2
    assert "hook_exists" in refused.err
    assert gatewright("hooks", "install", "--contract", contract, "--force").exit_code == 0
    write(repository, "src/app.py", "changed\n")
    assert git("commit", "--quiet", "-am", "inside").returncode == 0
    assert (repository.path / "ran").read_text() == "theirs\n"
    assert gatewright("hooks", "uninstall").exit_code == 0
    assert "theirs" in hook.read_text()
    assert not (repository.path / ".git/hooks/pre-push").exists()


def test_installing_twice_is_the_same_as_once(installed: Command, repository: Repository) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    before = hook.read_bytes()
    assert installed("hooks", "install").exit_code == 0
    assert hook.read_bytes() == before
    assert not hook.with_name("pre-commit.before-gatewright").exists()
    told = installed("hooks", "status", "--json").documents[0]
    assert told["hooks"] == {"pre-commit": "installed", "pre-push": "installed"}
    assert told["baseline"] == repository.head()


def test_without_a_contract_nothing_is_installed(
    gatewright: Command, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.path)
    said = gatewright("hooks", "install")
    assert said.exit_code == 2
    assert "no_active_contract" in said.err


@pytest.mark.long
def test_a_folder_of_hooks_elsewhere_is_respected(
    gatewright: Command, repository: Repository, contract: Path, git: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repository.path)
    repository.configure(core__hooksPath=tmp_path / "shared-hooks")
    assert gatewright("hooks", "install", "--contract", contract).exit_code == 0
    assert (tmp_path / "shared-hooks/pre-commit").exists()
    write(repository, "README.md", "mine\n")
    assert git("commit", "--quiet", "-am", "outside").returncode != 0


@pytest.mark.parametrize("planted", ["contract.json", "baseline"])
def test_a_planted_link_is_not_written_through(
    gatewright: Command,
    repository: Repository,
    contract: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    planted: str,
) -> None:
    """``.git/gatewright/contract.json`` leads to a file of the user."""
    monkeypatch.chdir(repository.path)
    victim = tmp_path / ".bashrc"
    victim.write_text("mine\n")
    active = repository.path / ".git/gatewright"
    active.mkdir()
    (active / planted).symlink_to(victim)
    assert gatewright("hooks", "install", "--contract", contract).exit_code == 0
    assert victim.read_text() == "mine\n"
    assert not (active / planted).is_symlink()


def test_a_planted_folder_of_the_contract_is_refused(
    gatewright: Command, repository: Repository, contract: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repository.path)
    (tmp_path / "victim").mkdir()
    (repository.path / ".git/gatewright").symlink_to(tmp_path / "victim")
    said = gatewright("hooks", "install", "--contract", contract)
    assert "repository_has_links" in said.err
    assert not list((tmp_path / "victim").iterdir())


def test_a_folder_that_names_another_repository_as_its_own_gets_no_hooks(
    gatewright: Command, repository: Repository, contract: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / ".git").write_text(f"gitdir: {repository.path}/.git\n")
    monkeypatch.chdir(planted)
    said = gatewright("hooks", "install", "--contract", contract)
    assert "repository_leads_elsewhere" in said.err
    assert not (repository.path / ".git/gatewright").exists()


@pytest.mark.usefixtures("installed")
def test_a_hook_whose_interpreter_is_gone_lets_nothing_through(repository: Repository, git: Git) -> None:
    hook = repository.path / ".git/hooks/pre-commit"
    lines = [("python=/nowhere/python" if line.startswith("python=") else line) for line in hook.read_text().splitlines()]
    hook.write_text("\n".join(lines) + "\n")
    write(repository, "src/app.py", "changed\n")
    stopped = git("commit", "--quiet", "-am", "inside")
    assert stopped.returncode != 0
    assert "is gone" in stopped.stderr


@pytest.mark.usefixtures("installed")
def test_a_hook_without_its_contract_lets_nothing_through(repository: Repository, git: Git) -> None:
    (repository.path / ".git/gatewright/contract.json").unlink()
    write(repository, "src/app.py", "changed\n")
    stopped = git("commit", "--quiet", "-am", "inside")
    assert stopped.returncode != 0
    assert "no_active_contract" in stopped.stderr


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_a_commit_cannot_change_the_contract_that_judges_it(repository: Repository, git: Git) -> None:
    wider = (repository.path / ".git/gatewright/contract.json").read_text().replace('"src"', '"README.md"')
    write(repository, "contract.json", wider)
    write(repository, ".gatewright/contract.json", wider)
    git("add", "--all", "--force")
    assert git("commit", "--quiet", "-m", "a wider contract").returncode != 0
