"""What tools leave in a workspace is left out of an agent's change, and what is left out can hide nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract, TaskResult
from gatewright.contracts.vocabulary import Executor, NetworkAttempts
from gatewright.services.worker.agents.probe.result import StepResult
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.work_documents.remarks import remark_line, worker_remarks
from tests.handler_fixture import HandlerFixture
from tests.worker.agents.admissions import admit_all
from tests.worker.test_agent_rounds import EDIT, first, kept, second, work, worker_with

#: What pytest, mypy, ruff and cargo leave behind, and node's tools.
CACHES = (
    "mkdir -p .pytest_cache/v .mypy_cache tests/__pycache__ target/debug node_modules/.cache && "
    "touch .pytest_cache/v/x .mypy_cache/x tests/__pycache__/t.pyc target/debug/app node_modules/.cache/x .coverage"
)


async def changed(fixture: HandlerFixture, tmp_path: Path, *commands: str, contract: TaskContract | None = None) -> TaskResult:
    worker = worker_with(fixture, tmp_path, [EDIT, *(f"sh:{each}" for each in commands)])
    return await work(fixture, worker, contract or first(fixture))


def count(result: TaskResult) -> int:
    return result.left_out.files if result.left_out is not None else 0


async def test_caches_of_test_tools_do_not_cost_an_agent_its_work(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await changed(fixture, tmp_path, CACHES)
    assert result.git.changed_files == ("src/a.py",)
    assert result.gates.diff_gate.passed
    assert [remark_line(each).partition(" .")[0] for each in worker_remarks(result)] == [
        "worker: left_out: 6 files that tools left are not part of the change:"
    ]
    assert b".pytest_cache/v/x\n" in kept(fixture, result, "left_out_files")


async def test_files_that_the_baseline_ignores_are_left_out(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.baseline = fixture.repository.commit({".gitignore": b"*.log\n!keep.log\n/out/\n", "sub/.gitignore": b"made*\n"})
    result = await changed(fixture, tmp_path, "mkdir out sub/x; touch a.log out/b sub/x/made.c keep.log")
    assert result.git.changed_files == ("keep.log", "src/a.py")
    assert count(result) == 3


async def test_a_gitignore_of_the_change_itself_hides_nothing(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await changed(fixture, tmp_path, "echo '*.sh' > .gitignore; echo '*.sh' > src/.gitignore; echo rm > evil.sh")
    assert set(result.git.changed_files) == {".gitignore", "evil.sh", "src/.gitignore", "src/a.py"}
    assert "path_out_of_scope: evil.sh" in result.gates.diff_gate.violations


async def test_a_tracked_file_is_never_left_out(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.repository.commit({"ci.cfg": b"x\n", "old/.cache/a": b"x\n"})
    fixture.baseline = fixture.repository.commit({".gitignore": b"*.cfg\n"})
    result = await changed(fixture, tmp_path, "echo evil > ci.cfg; rm -r old/.cache; mkdir old/.cache; echo > old/.cache/b")
    assert result.git.changed_files == ("ci.cfg", "old/.cache/a", "src/a.py")


async def test_a_masked_file_that_the_baseline_tracks_is_not_left_out(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.repository.commit({".claude/settings.json": b"{}\n"})
    fixture.baseline = fixture.repository.commit({".gitignore": b".claude\n"})
    result = await changed(fixture, tmp_path, "mkdir .claude; echo evil > .claude/settings.json")
    assert result.git.changed_files == (".claude/settings.json", "src/a.py")


async def test_a_file_in_scope_is_never_left_out(fixture: HandlerFixture, tmp_path: Path) -> None:
    fixture.baseline = fixture.repository.commit({".gitignore": b"*.log\n"})
    result = await changed(fixture, tmp_path, "mkdir src/__pycache__; touch src/__pycache__/a.pyc src/a.log")
    assert result.git.changed_files == ("src/__pycache__/a.pyc", "src/a.log", "src/a.py")
    assert count(result) == 0


async def test_what_is_left_out_lies_in_no_tree(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await changed(fixture, tmp_path, "mkdir .pytest_cache; echo evil > .pytest_cache/conftest.py")
    tree, patch = await fixture.changed({"src/a.py": b"x = 1\ny = 2\n"})
    assert (result.git.head_ref, fixture.artifacts.stored[result.git.patch]) == (tree, patch)


@pytest.mark.parametrize(
    "odd",
    [
        "mkfifo .pytest_cache/pipe",
        "head -c 300000000 /dev/zero > .pytest_cache/large",
        "ln -s /etc/passwd .pytest_cache/link",
        "chmod 0 .pytest_cache",
    ],
)
async def test_a_cache_of_any_kind_or_size_is_left_out(fixture: HandlerFixture, tmp_path: Path, odd: str) -> None:
    result = await changed(fixture, tmp_path, f"mkdir .pytest_cache; {odd}")
    assert result.git.changed_files == ("src/a.py",)


async def test_a_further_round_keeps_caches_out(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = worker_with(fixture, tmp_path, ["sh:echo '# more' >> src/a.py", f"sh:{CACHES}"])
    result = await work(fixture, worker, first(fixture))
    again = await work(fixture, worker, second(fixture, result))
    assert again.git.changed_files == ("src/a.py",)


async def test_an_agent_that_leaves_only_caches_has_changed_nothing(fixture: HandlerFixture, tmp_path: Path) -> None:
    result = await worker_with(fixture, tmp_path, [f"sh:{CACHES}"]).handle(first(fixture), fixture.context())
    assert (result.failure or "").startswith("no_change")
    assert count(result) == 6


@pytest.mark.parametrize(
    "made", ["git init -q . && git add . && git commit -qm x", "mkdir .git; echo x > .git/HEAD", "echo x > .git"]
)
async def test_a_repository_that_the_agent_makes_is_discarded(fixture: HandlerFixture, tmp_path: Path, made: str) -> None:
    who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b"
    result = await changed(fixture, tmp_path, f"{who}; {made}; echo '# late' >> src/b.py")
    assert result.git.changed_files == ("src/a.py", "src/b.py")


async def test_another_spelling_of_a_git_folder_is_refused(fixture: HandlerFixture, tmp_path: Path) -> None:
    worker = worker_with(fixture, tmp_path, [EDIT, "sh:mkdir .GIT; echo x > .GIT/HEAD"])
    result = await worker.handle(first(fixture), fixture.context())
    assert (result.failure or "").startswith("git_path")


@pytest.mark.parametrize("shell", ["on-request", "deny"])
async def test_an_agent_that_gave_up_is_reported_with_cause_and_remedy(
    fixture: HandlerFixture, tmp_path: Path, shell: Literal["on-request", "deny"]
) -> None:
    worker = worker_with(fixture, tmp_path, ["wants:allow_once,reject_once:make"])
    steps = tuple(StepResult(step=name, outcome="passed", found="") for name in ("handshake", "asks", "obeys_no", "cancel"))
    admit_all(fixture.state, tmp_path / "policies", tmp_path / "installation", steps=steps)
    permissions = replace(first(fixture).tool_permissions, shell=shell)
    result = await worker.handle(replace(first(fixture), tool_permissions=permissions), fixture.context())
    assert (result.failure or "").startswith("agent_declined")
    assert f"shell: {shell})" in (result.failure or "")
    assert "shell: never" in (result.failure or "")


async def test_checkers_keep_their_caches_outside_the_workspace(fixture: HandlerFixture, tmp_path: Path) -> None:
    names = "MYPY_CACHE_DIR RUFF_CACHE_DIR HYPOTHESIS_STORAGE_DIRECTORY NUMBA_CACHE_DIR"
    made = f"for name in {names}; do eval place=\\$$name; mkdir -p $place/x; echo $place; done > src/a.py"
    result = await changed(fixture, tmp_path, made)
    patch = fixture.artifacts.stored[result.git.patch].decode()
    assert [line[:12] for line in patch.splitlines() if line.startswith("+/")] == ["+/tmp/cache/"] * 4
    assert count(result) == 0


async def test_caches_of_a_command_are_left_out_too(fixture: HandlerFixture) -> None:
    fixture.baseline = fixture.repository.commit({"tools/go.sh": f"echo >> src/a.py; {CACHES}\n".encode()})
    contract = fixture.contract(executor=Executor(kind="command", commands=("sh tools/go.sh",)), allowed_paths=("src",))
    worker = make_handler(Settings(home=fixture.state))
    result = await worker.handle(contract, fixture.context())
    assert (result.failure, result.git.changed_files) == (None, ("src/a.py",))
    assert count(result) == 6


async def test_an_agent_that_tries_the_network_is_reported(fixture: HandlerFixture, tmp_path: Path) -> None:
    reach = "python3 -c \"import socket; socket.socket().connect_ex(('198.51.100.7', 443))\""
    result = await changed(fixture, tmp_path, reach)
    assert (result.status, result.attempts) == ("SUCCESS", NetworkAttempts(ipv4=1, ipv6=0))
