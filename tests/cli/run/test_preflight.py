"""What would stop a run for certain is said before anything is started; what is not committed is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gatewright.app.cli.run.preflight import missing_programs, uncommitted_words
from gatewright.sandbox.programs import find_program, not_found
from tests.cli.conftest import Command, MakeRepository

ORDER = ("--allow", "a.txt", "--test", "true")


def make_prefix(folder: Path, *programs: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    for name in programs:
        program = folder / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return folder


def git(repository: Path, *words: str) -> None:
    subprocess.run(("git", "-c", "user.name=t", "-c", "user.email=t@localhost", *words), cwd=repository, check=True)


def test_a_program_missing_from_the_env_is_reported_first(
    gatewright: Command, make_repository: MakeRepository, tmp_path: Path
) -> None:
    prefix = make_prefix(tmp_path / "env with ü", "ruff")
    words = ("--repo", make_repository("r"), "--env", prefix, "--exec", "ruff check", "--test", "no-such-tool -q")
    said = gatewright("run", "do it", "--allow", "a.txt", *words)
    assert said.exit_code == 2
    assert f"'no-such-tool' was not found in --env {prefix}" in said.err
    assert f"{prefix}/bin" in said.err
    assert "/usr/bin" in said.err
    assert "'ruff'" not in said.err
    assert not [*tmp_path.rglob(".gatewright"), *tmp_path.rglob(".git/gatewright")], "nothing is made for input that is refused"


def test_a_missing_env_is_reported_with_the_callers_own_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = make_prefix(tmp_path / "venv", "only-here")
    monkeypatch.setenv("PATH", f"{prefix / 'bin'}:/usr/bin:/bin")
    (fault,) = missing_programs((), ("only-here --check",), None)
    assert (fault.pointer, fault.code) == ("/acceptance_tests/0/cmd", "program_not_found")
    assert "no --env was given" in fault.message
    assert f"pass --env {prefix}" in fault.message


def test_without_an_env_the_option_that_prepares_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("gatewright.sandbox.programs.PATH", "/nowhere")
    python, other = missing_programs((), ("python3.12 -m pytest", "only-here --check"), None)
    assert "--env auto builds an environment" in python.message
    assert "--env auto" not in other.message
    (given,) = missing_programs((), ("python -m pytest",), make_prefix(tmp_path / "venv", "ruff"))
    assert "--env auto" not in given.message


def test_repository_paths_and_malformed_commands_are_left_to_the_gates(tmp_path: Path) -> None:
    assert list(missing_programs(("./tools/edit.sh", "a && b", "X=1 run"), ("tools/check -q",), tmp_path)) == []


def test_a_program_that_may_not_be_executed_is_not_found(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env", "tool")
    assert find_program("tool", prefix) == prefix / "bin" / "tool"
    (prefix / "bin" / "tool").chmod(0o644)
    assert "was not found" in (not_found("tool", prefix) or "")


def test_a_missing_sandbox_is_reported_before_the_start(
    gatewright: Command, make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatewright.sandbox.binary import find_bwrap

    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "bwrap").write_text('#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.11.0 && exit; echo no >&2; exit 1\n')
    (fake / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:/usr/bin:/bin")
    find_bwrap.cache_clear()
    try:
        said = gatewright("run", "do it", "--repo", make_repository("r"), *ORDER, "--exec", "true")
        up = gatewright("up")
    finally:
        find_bwrap.cache_clear()
    assert said.exit_code == 3
    assert "[sandbox_unavailable]" in said.err
    assert up.exit_code == 3
    assert "[sandbox_unavailable]" in up.err
    assert not (tmp_path / "r" / ".git" / "gatewright" / "nats").exists()


@pytest.mark.parametrize("ref", ["refs/heads/a..b", "x.lock", "refs/replace/x"])
def test_a_malformed_target_is_reported_before_the_start(
    gatewright: Command, make_repository: MakeRepository, ref: str
) -> None:
    words = ("--exec", "true", "--land", "target", f"--target-ref={ref}")
    said = gatewright("run", "do it", "--repo", make_repository("r"), *ORDER, *words)
    assert said.exit_code == 2
    assert "  --target-ref: " in said.err
    assert "/repository" not in said.err, "no field of a document"


def test_what_is_not_committed_is_counted(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository("ü r")
    assert uncommitted_words(str(repository), "HEAD") is None
    (repository / "a.txt").write_text("changed\n")
    (repository / "new.py").write_text("")
    words = uncommitted_words(str(repository), "HEAD")
    assert words == "warning: 2 files are not committed (1 changed, 1 untracked) and no part of the run, which starts from HEAD"
    git(repository, "add", ".")
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert uncommitted_words(str(tmp_path / "linked"), "HEAD") is None


def test_ignored_files_are_not_counted(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("*.log\n")
    (repository / "x.log").write_text("")
    assert uncommitted_words(str(repository), "HEAD") is None


def test_counting_starts_no_filter_hook_or_monitor_of_the_repository(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository, proof = make_repository("r"), tmp_path / "proof"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch '{proof}'\ncat\n")
    evil.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "core.hooksPath"):
        git(repository, "config", key, str(evil))
    (repository / "a.txt").write_text("b\n")
    assert "2 files" in (uncommitted_words(str(repository), "HEAD") or "")
    assert not proof.exists()


def test_an_empty_or_bare_repository_has_nothing_to_count(tmp_path: Path) -> None:
    for name, words in (("empty", ("init", "-q")), ("bare", ("init", "-q", "--bare"))):
        (tmp_path / name).mkdir()
        git(tmp_path / name, *words)
        assert uncommitted_words(str(tmp_path / name), "HEAD") is None
    assert uncommitted_words("https://host.invalid/x.git", "HEAD") is None
