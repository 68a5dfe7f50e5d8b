"""Git inside the sandbox works on a throwaway copy of the last commits, and no git of ours reads what an agent did to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gatewright.services.worker.handler import WorkerHandler
from tests.handler_fixture import HandlerFixture
from tests.worker.test_agent_rounds import EDIT, first, kept, second, work, worker_with

SECRET = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
#: Configuration that runs a command whenever git looks at a repository.
RUNS = "[core]\\n\\tfsmonitor = touch {0}\\n\\thooksPath = {1}\\n[alias]\\n\\tlog = !touch {0}\\n"


def with_history(fixture: HandlerFixture, tmp_path: Path, *words: str, commits: int = 100) -> WorkerHandler:
    return worker_with(fixture, tmp_path, words, {"history": commits})


async def told(fixture: HandlerFixture, tmp_path: Path, *commands: str, commits: int = 100) -> list[str]:
    """What ``commands`` print in the sandbox, as lines."""
    script = "; ".join(f"({each}) >> src/out.txt 2>&1" for each in commands)
    result = await work(fixture, with_history(fixture, tmp_path, f"sh:{script}", commits=commits), first(fixture))
    assert result.git.changed_files == ("src/out.txt",)
    patch = fixture.artifacts.stored[result.git.patch].decode()
    return [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]


async def test_log_blame_diff_and_status_work(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.baseline = fixture.repository.commit({"src/a.py": b"x = 1\nz = 1\n"}, "add z")
    lines = await told(
        fixture,
        tmp_path,
        "git log --format=%H -1",
        "git log --format=%s -- src/a.py",
        "git blame -s src/a.py | cut -c1-8",
        "git show HEAD:src/a.py",
        "git diff --stat HEAD~1 | tail -1",
        "echo w = 1 >> src/b.py; git diff --name-only; git checkout -q src/b.py; git status --porcelain",
    )
    second_id = fixture.baseline[:7]
    assert lines[0] == fixture.baseline
    assert lines[1:3] == ["add z", "first"]
    assert lines[4].startswith(second_id)
    assert lines[5:] == ["x = 1", "z = 1", " 1 file changed, 1 insertion(+)", "src/b.py", "?? src/out.txt"]


async def test_commits_branches_and_stashes_are_discarded(fixture: HandlerFixture, tmp_path: Path) -> None:
    commands = (
        "git checkout -qb mine && git add -A && git commit -qm mine && git reset -q --hard HEAD && git stash list && git tag x"
    )
    result = await work(fixture, with_history(fixture, tmp_path, EDIT, f"sh:{commands} && echo ok > src/b.py"), first(fixture))
    assert result.git.changed_files == ("src/a.py", "src/b.py")
    assert result.left_out is None
    lines = await told(
        fixture, tmp_path, "git branch --format='%(refname)'; git log --format=%an -1; git tag; git config user.name"
    )
    assert lines == ["refs/heads/main", "A. Person", "Agent"]


async def test_only_so_many_commits_of_the_baselines_branch_are_there(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.repository.git("checkout", "-qb", "other")
    other = fixture.repository.commit({"src/other.py": b"secret plan\n"}, "of another branch")
    fixture.repository.git("checkout", "-q", "main")
    for number in range(5):
        fixture.baseline = fixture.repository.commit({"src/a.py": f"x = {number}\n".encode()}, f"number {number}")
    await (await fixture.mirror()).ensure(other)
    lines = await told(
        fixture,
        tmp_path,
        "git log --format=%s",
        f"git cat-file -e {other} || echo absent",
        "git remote; git for-each-ref --format='%(refname)'; ls .git/objects/info .git/hooks",
        "git fsck --connectivity-only 2>&1 | grep -v dangling | wc -l",
        commits=3,
    )
    assert lines[:3] == ["number 4", "number 3", "number 2"]
    assert "absent" in lines
    assert "refs/heads/main" in lines
    assert not any("other" in line for line in lines)
    assert lines[-1] == "0"


async def test_masked_files_and_old_secrets_are_not_in_the_history(fixture: HandlerFixture, tmp_path: Path) -> None:
    masked = {".claude/settings.json": b'{"hooks": "of the past"}', "src/.claude/x": b"of the present"}
    fixture.repository.commit(
        {"src/key.txt": SECRET.encode(), "src/large.txt": b"of size " * 200_000, **masked}, f"key {SECRET}"
    )
    fixture.baseline = fixture.repository.commit({"src/key.txt": None, "src/large.txt": None, ".claude/settings.json": None})
    lines = await told(
        fixture,
        tmp_path,
        "git log -p --format=%B | cut -c1-100",
        "git cat-file --batch-all-objects --batch --buffer | grep -ac -e 'hooks' -e 'of the present' -e ghp_0 -e 'of size'",
        "git status --porcelain; git ls-files -v src/.claude; ls -A src",
    )
    text = "\n".join(lines)
    assert SECRET not in text
    assert "[withheld: it looks like a secret]" in text
    assert "[withheld: the message looks like a secret]" in text
    assert "[withheld: it is too large, or too old]" in text
    assert "[withheld: the path is masked]" in text
    assert lines[lines.index("?? src/out.txt") - 1] == "0"
    assert "S src/.claude/x" in lines
    assert ".claude" not in lines


@pytest.mark.parametrize("commits", [0, 100])
async def test_an_order_states_how_much_history_there_is(fixture: HandlerFixture, tmp_path: Path, commits: int) -> None:
    fixture.baseline = fixture.repository.commit({"src/b.py": b"y = 2\n"})
    result = await work(fixture, with_history(fixture, tmp_path, EDIT, commits=commits), first(fixture))
    prompt = kept(fixture, result, "codex_prompt").decode()
    assert ("work on a copy of the last 3 commits" in prompt) is bool(commits)
    assert ("There is no git history." in prompt) is not commits


async def test_a_further_round_sees_the_refused_change_in_git_diff(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await work(fixture, with_history(fixture, tmp_path, EDIT), first(fixture))
    again = await work(fixture, with_history(fixture, tmp_path, "sh:git diff --name-only > src/b.py"), second(fixture, result))
    assert b"+src/a.py\n" in fixture.artifacts.stored[again.git.patch]


def planted(marker: Path, hooks: Path) -> Sequence[str]:
    """Commands by which an agent makes its repository hostile."""
    config = RUNS.format(marker, hooks)
    hook = f"mkdir -p {{0}} && printf '#!/bin/sh\\ntouch {marker}\\n' > {{0}}/{{1}} && chmod 755 {{0}}/{{1}}"
    return (
        f"printf '{config}' > .git/config",
        "; ".join(
            hook.format(".git/hooks", name)
            for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction")
        ),
        "echo ref: refs/heads/evil > .git/HEAD; head -c 4096 /dev/urandom > .git/index",
        "echo /etc > .git/objects/info/alternates; mkdir -p .git/refs/replace; rm -rf .git/objects/pack",
        "rm -rf .git; ln -s /etc .git",
        "rm -rf .git; echo gitdir: /tmp > .git",
        "mkfifo .git/pipe; ln -s / .git/link; chmod 0 .git/objects; echo '*.py filter=x' > .git/info/attributes",
        "git config filter.x.clean 'touch owned'; git config core.worktree /; git config include.path /etc/passwd",
    )


@pytest.mark.parametrize("number", range(8))
async def test_a_repository_made_hostile_runs_nothing_and_reaches_no_other_task(
    fixture: HandlerFixture, tmp_path: Path, number: int
) -> None:
    marker = tmp_path / "ran"
    tmp_path.chmod(0o777)
    command = planted(marker, tmp_path / "hooks")[number]
    worker = with_history(fixture, tmp_path, EDIT, f"sh:{command}; true")
    result = await work(fixture, worker, first(fixture))
    assert result.git.changed_files == ("src/a.py",)
    again = await work(fixture, worker, second(fixture, result)) if number == 0 else result
    assert again.git.changed_files == ("src/a.py",)
    assert not marker.exists()
    lines = await told(
        fixture, tmp_path, "git log --format=%s -1; git status --porcelain; git config -l | grep -c -e fsmonitor -e filter"
    )
    assert lines == ["make it executable", "?? src/out.txt", "0"]
