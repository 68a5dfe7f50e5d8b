"""The command executor: what the command changed in its workspace is the patch, and nothing it says is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts import TaskResult, WorkReport, codec
from gatewright.contracts.vocabulary import Environment, Executor, NetworkAttempts, TimeoutRetry
from gatewright.errors import SandboxError
from gatewright.services.worker.executors.command import CommandExecutor
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from gatewright.work_documents.remarks import remark_line, worker_remarks
from gatewright.workspace import Workspaces
from tests.handler_fixture import BrokenSandbox, HandlerFixture


async def work(fixture: HandlerFixture, worker: WorkerHandler, *commands: str, **changes: object) -> TaskResult:
    contract = fixture.contract(executor=Executor(kind="command", commands=commands), **changes)
    result = await worker.handle(contract, fixture.context())
    return codec.decode(codec.encode(result), TaskResult)


def logs(fixture: HandlerFixture, result: TaskResult) -> dict[str, bytes]:
    return {artifact.name: fixture.artifacts.stored[artifact.uri] for artifact in result.artifacts}


async def test_the_change_in_the_workspace_is_the_patch(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, "sed -i s/1/2/ src/a.py")
    tree, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    assert (result.status, result.failure) == ("SUCCESS", None)
    assert (result.git.head_ref, result.git.changed_files) == (tree, ("src/a.py",))
    assert fixture.artifacts.stored[result.git.patch] == patch
    assert result.gates.diff_gate.passed
    assert result.producer.agent_id == "worker-here-7"
    assert (result.run_id, result.git.baseline_ref, result.attempt) == ("run-0123456789", fixture.baseline, 1)


async def test_the_word_paths_becomes_the_contract_s_paths(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, "python3 tools/fix.py {paths}", allowed_paths=("src/a.py", "src/b.py"))
    assert result.git.changed_files == ("src/a.py", "src/b.py")
    assert logs(fixture, result)["stdout"] == b"src/a.py\nsrc/b.py\n"


async def test_files_come_and_go_and_become_executable(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = b"""
import os
os.remove("src/a.py")
os.makedirs("src/n")
open("src/n/c.py", "w").close()
os.chmod("src/b.py", 0o755)
"""
    fixture.baseline = fixture.repository.commit({"tools/move.py": script})
    result = await work(fixture, worker, "python3 tools/move.py")
    assert result.git.changed_files == ("src/a.py", "src/b.py", "src/n/c.py")
    assert result.summary.startswith("3 files changed: 1 added, 1 deleted, 1 modified")


async def test_a_command_that_tries_the_network_is_reported(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = b"import socket, sys\nsocket.socket().connect_ex(('198.51.100.7', 443))\nsys.exit(int(sys.argv[1]))\n"
    fixture.baseline = fixture.repository.commit({"tools/reach.py": script})
    for code, status in (("0", "SUCCESS"), ("1", "FAILED")):
        result = await work(fixture, worker, f"python3 tools/reach.py {code}")
        assert (result.status, result.attempts) == (status, NetworkAttempts(ipv4=1, ipv6=0))
        (remark,) = worker_remarks(result)
        assert remark_line(remark).endswith(f"{result.task_id}: tried to reach the network 1 time (IPv4)")


async def test_a_folder_of_the_baseline_can_be_renamed(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    """An overlay answers EXDEV: the command is run again, from the beginning, in a plain copy."""
    script = b"""
from pathlib import Path
assert not Path("src/left.py").exists()
Path("src/left.py").write_text("")
Path("src").rename("library")
"""
    fixture.baseline = fixture.repository.commit({"tools/move.py": script})
    result = await work(fixture, worker, "python3 tools/move.py")
    assert (result.status, result.failure) == ("SUCCESS", None)
    assert {"library/a.py", "library/b.py", "library/left.py", "src/a.py", "src/b.py"} <= set(result.git.changed_files)
    assert "in a plain copy" in result.summary


async def test_a_faked_overlay_error_causes_only_one_rerun(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = b"import sys\nsys.exit('OSError: [Errno 18] Invalid cross-device link')\n"
    fixture.baseline = fixture.repository.commit({"tools/fail.py": script})
    result = await work(fixture, worker, "python3 tools/fail.py")
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "executor_failed")


async def test_questions_of_a_command_are_in_its_result_not_patch(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = b"""
import json
said = {"question": "3 or 5?", "best_guess": "3", "fallback_action": "it goes on with 3", "can_resume_without_answer": True}
json.dump([said, {}], open(".gatewright-blocked.json", "w"))
open("src/a.py", "w").write("x = 3\\n")
"""
    fixture.baseline = fixture.repository.commit({"tools/guess.py": script})
    result = await work(fixture, worker, "python3 tools/guess.py")
    assert result.git.changed_files == ("src/a.py",)
    assert [(block.session, block.question) for block in result.blocked] == [(result.task_id, "3 or 5?")]
    assert b"question 2: " in logs(fixture, result)["blocked_refused"]
    assert [each.message.partition(":")[0] for each in result.questions_refused] == ["question 2"]


@pytest.mark.parametrize("made", ["os.symlink('/etc/passwd', NAME)", "os.mkdir(NAME); open(NAME + '/a', 'w').write('{}')"])
async def test_a_link_or_a_folder_in_the_place_of_questions_is_reported(
    fixture: HandlerFixture, worker: WorkerHandler, made: str
) -> None:
    script = f"import os\nNAME = '.gatewright-blocked.json'\n{made}\nopen('src/a.py', 'w').write('x = 3\\n')\n".encode()
    fixture.baseline = fixture.repository.commit({"tools/guess.py": script})
    result = await work(fixture, worker, "python3 tools/guess.py")
    assert (result.status, result.git.changed_files, result.blocked) == ("SUCCESS", ("src/a.py",), ())
    assert [each.code for each in result.questions_refused] == ["blocked_not_a_file"]


async def test_a_command_that_changes_nothing_hands_over_no_patch(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, "true")
    assert (result.status, result.git.patch, result.git.changed_files) == ("SUCCESS", "", ())
    assert result.gates.diff_gate.passed


async def test_a_change_out_of_scope_is_handed_over_and_named(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(fixture, worker, "sed -i s/me/ME/ README.md")
    assert result.status == "SUCCESS"
    assert result.gates.diff_gate.violations == ("path_out_of_scope: README.md",)
    assert not result.gates.diff_gate.passed


async def test_no_gate_but_the_diff_is_claimed_to_have_passed(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    gates = (await work(fixture, worker, "true")).gates
    for gate in (gates.policy_gate, gates.review_gate, gates.tests_gate):
        assert (gate.passed, gate.violations) == (False, ("not judged by the worker",))


async def test_a_failing_command_leaves_its_last_words_and_no_patch(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    fixture.baseline = fixture.repository.commit(
        {"tools/bad.py": b"import sys\nopen('src/a.py', 'w')\nprint('out')\nsys.exit('it \x1b[31mbroke')\n"}
    )
    result = await work(fixture, worker, "python3 tools/bad.py")
    assert (result.status, result.failure) == ("FAILED", "executor_failed: exit 1: it ?[31mbroke")
    assert (result.git.patch, result.git.head_ref, result.git.changed_files) == ("", "", ())
    assert logs(fixture, result)["stdout"] == b"out\n"
    report = codec.decode(logs(fixture, result)["work_report"], WorkReport)
    assert (report.status, report.patch_ref, report.failure_reason) == ("fail", "", result.failure)


async def test_a_command_that_takes_too_long_is_killed(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await work(
        fixture, worker, "sleep 60", timeout_retry=TimeoutRetry(timeout_sec=1, max_retries=0, retry_backoff_sec=0)
    )
    assert (result.status, result.failure) == ("FAILED", "task_timeout: the command was killed after 1 s")


async def test_every_attempt_takes_its_own_answer(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    commands = ("sed -i s/1/2/ src/a.py", "sed -i s/1/3/ src/a.py")
    first = await work(fixture, worker, *commands)
    second = await work(fixture, worker, *commands, attempt=2)
    third = await work(fixture, worker, *commands, attempt=3)
    assert first.git.head_ref != second.git.head_ref
    assert (second.attempt, third.attempt) == (2, 3)
    assert third.failure == "no_further_answer: attempt 3, and the command executor has 2 answer(s)"


@pytest.mark.parametrize("command", ["sed -i s/1/2/ src/a.py; rm x", "FOO=1 true", "cat $HOME", "-x"])
async def test_a_command_line_for_a_shell_is_refused(fixture: HandlerFixture, worker: WorkerHandler, command: str) -> None:
    result = await work(fixture, worker, command)
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "command_not_allowed")


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("special_file", "import os; os.mkfifo('src/pipe')"),
        ("git_path", "import os; os.makedirs('src/sub/.git'); open('src/sub/.git/config', 'w').write('[core]')"),
    ],
)
async def test_what_no_tree_may_hold_is_refused(fixture: HandlerFixture, worker: WorkerHandler, code: str, script: str) -> None:
    fixture.baseline = fixture.repository.commit({"tools/trap.py": script.encode()})
    result = await work(fixture, worker, "python3 tools/trap.py")
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", code)


async def test_an_environment_that_the_operator_did_not_list_is_refused(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    result = await work(fixture, worker, "true", environment=Environment(prefix=str(tmp_path)))
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "environment_not_allowed")


async def test_a_listed_environment_may_be_named_in_another_spelling(fixture: HandlerFixture) -> None:
    # Not below the test's own directory: the sandbox never shows /tmp.
    worker = make_handler(Settings(home=fixture.state, environments=(Path("/usr/local"),)))
    result = await work(fixture, worker, "true", environment=Environment(prefix="/usr/../usr/local"))
    assert (result.status, result.failure) == ("SUCCESS", None)


async def test_a_contract_without_an_executor_fails_with_the_cause(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await worker.handle(fixture.contract(executor=None), fixture.context())
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "executor_missing")


async def test_a_worker_without_a_sandbox_is_blocked_beforehand(fixture: HandlerFixture, tmp_path: Path) -> None:
    sandbox = BrokenSandbox()
    workspaces = Workspaces(tmp_path / "workspaces", overlay=False)
    executor = CommandExecutor(workspaces, sandbox, ())
    worker = WorkerHandler("worker-1", fixture.mirrors, {"command": executor}, sandbox, workspaces)
    with pytest.raises(SandboxError, match="forbidden here"):
        await worker.probe()
    result = await work(fixture, worker, "true")
    assert (result.status, result.failure) == ("BLOCKED", "sandbox_unavailable: user namespaces are forbidden here")
