"""Acceptance commands on the candidate, in a real sandbox: exit codes decide, words do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract, TestReport, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Environment, NetworkAttempts, TimeoutRetry
from gatewright.errors import MalformedError, SandboxError
from gatewright.services.testrunner.handler import TestRunnerHandler, make_handler
from gatewright.services.testrunner.settings import Settings
from gatewright.work_documents.remarks import NETWORK, remark_line
from gatewright.work_documents.remarks import test_remarks as remarks_of_tests
from gatewright.workspace import Workspaces
from tests.handler_fixture import BrokenSandbox, HandlerFixture, make_handler_fixture

FILES = {
    "src/a.py": b"x = 1\n",
    "is_two.py": b"import runpy\nprint('looking')\nassert runpy.run_path('src/a.py')['x'] == 2, 'not two'\n",
    "rewrite.py": b"open('src/a.py', 'w').write('x = 2\\n')\nopen('made.log', 'w').close()\n",
}
RUNNER = Agent(role="TEST_RUNNER", agent_id="testrunner-1")


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    # Commands run as another user than root: the way to the workspaces must be open to it.
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


@pytest.fixture
def runner(fixture: HandlerFixture) -> TestRunnerHandler:
    return make_handler(Settings(home=fixture.state))


def check(cmd: str, *, must_pass: bool = True) -> AcceptanceTest:
    return AcceptanceTest(name=f"check {cmd.partition(' ')[0]}", cmd=cmd, must_pass=must_pass)


def order(fixture: HandlerFixture, patch: bytes, *checks: AcceptanceTest, **changes: object) -> TaskContract:
    inputs = Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", patch),))
    task = fixture.contract(task_type="TEST", task_id="run-0123456789.test.a1", assigned_agent=RUNNER, executor=None)
    return replace(task, **{"inputs": inputs, "acceptance_tests": checks, **changes})


async def tested(fixture: HandlerFixture, runner: TestRunnerHandler, *checks: AcceptanceTest, **changes: object) -> TestReport:
    """The report on a candidate in which ``x`` is 2."""
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    report = await runner.handle(order(fixture, patch, *checks, **changes), fixture.context())
    return codec.decode(codec.encode(report), TestReport)


def output(fixture: HandlerFixture, uri: str) -> bytes:
    return fixture.artifacts.stored[uri] if uri else b""


async def test_the_candidate_is_tested_and_not_the_baseline(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    tree, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    report = await runner.handle(order(fixture, patch, check("python3 is_two.py")), fixture.context())
    assert (report.status, report.tree, report.failure) == ("PASS", tree, None)
    assert (report.sandbox, report.runner) == ("bubblewrap", RUNNER)
    (command,) = report.commands
    assert (command.cmd_argv, command.exit_code, command.timed_out) == (("python3", "is_two.py"), 0, False)
    assert (output(fixture, command.stdout), command.stderr) == (b"looking\n", "")
    on_baseline = await runner.handle(order(fixture, b"", check("python3 is_two.py")), fixture.context())
    assert (on_baseline.status, on_baseline.failure) == ("FAIL", "tests_failed: check python3 ended with 1")
    assert b"not two" in output(fixture, on_baseline.commands[0].stderr)


async def test_all_commands_run_in_order_even_after_a_failure(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("true"), check("false"), check("test -f src/a.py"))
    assert [command.exit_code for command in report.commands] == [0, 1, 0]
    assert (report.status, report.failure) == ("FAIL", "tests_failed: check false ended with 1")
    assert report.summary is not None
    assert (report.summary.passed, report.summary.failed, report.summary.skipped) == (2, 1, 0)
    assert fixture.steps == 4, "three commands, and the one that failed before it is run on the baseline"


async def test_a_command_that_need_not_pass_decides_nothing(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("false", must_pass=False), check("true"))
    assert report.status == "PASS"


async def test_words_of_success_prove_nothing(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("grep -c passed /dev/null"))
    assert report.status == "FAIL"


async def test_a_command_that_takes_too_long_has_failed(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    limit = TimeoutRetry(timeout_sec=1, max_retries=0, retry_backoff_sec=0)
    report = await tested(fixture, runner, check("sleep 60"), timeout_retry=limit)
    assert (report.status, report.failure) == ("FAIL", "tests_failed: check sleep was killed after 1 s")
    assert report.commands[0].timed_out


async def test_a_program_that_does_not_exist_has_failed(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("no-such-program"))
    assert (report.status, report.commands[0].exit_code) == ("FAIL", 127)


async def test_nothing_runs_when_one_command_is_no_plain_argv(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("true"), check("true && false"))
    assert (report.status, report.commands) == ("ERROR", ())
    assert (report.failure or "").startswith("command_not_allowed: check true: ")
    assert report.summary is not None
    assert report.summary.skipped == 2
    assert report.tree is not None


async def test_an_environment_that_is_not_listed_is_an_error_about_the_candidate(
    fixture: HandlerFixture, runner: TestRunnerHandler
) -> None:
    report = await tested(fixture, runner, check("true"), environment=Environment(prefix="/usr"))
    assert (report.status, (report.failure or "").partition(":")[0]) == ("ERROR", "environment_not_allowed")
    assert report.tree is not None


async def test_a_candidate_that_cannot_be_rebuilt_is_an_error(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await runner.handle(order(fixture, b"no patch\n", check("true")), fixture.context())
    assert (report.status, report.tree) == ("ERROR", None)
    assert (report.failure or "").startswith("patch_malformed")
    with pytest.raises(MalformedError):
        await runner.handle(order(fixture, b"", check("true"), repository=None), fixture.context())


async def test_commands_that_rewrite_what_they_test_are_noted(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await runner.handle(
        order(fixture, b"", check("python3 rewrite.py"), check("python3 is_two.py")), fixture.context()
    )
    assert report.status == "PASS"
    (note,) = report.artifacts
    assert (note.name, output(fixture, note.uri)) == ("workspace_changes", b"src/a.py\n")


async def test_files_that_tests_leave_behind_are_discarded(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("touch left.log"), check("test -f left.log"))
    assert (report.status, report.artifacts) == ("PASS", ())
    again = await tested(fixture, runner, check("test -f left.log"))
    assert again.status == "FAIL"


async def test_the_report_names_every_variable_of_a_command(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    report = await tested(fixture, runner, check("env"))
    names = {line.partition(b"=")[0].decode() for line in output(fixture, report.commands[0].stdout).splitlines()}
    assert report.surroundings is not None
    assert {*(report.surroundings.variables or ()), "PWD"} == names


async def test_without_a_sandbox_on_operator_request_the_report_shows_it(fixture: HandlerFixture) -> None:
    unconfined = make_handler(Settings(home=fixture.state, sandbox="none"))
    report = await tested(fixture, unconfined, check("python3 is_two.py"))
    assert (report.status, report.sandbox) == ("PASS", "none")


async def test_a_sandbox_that_fails_is_an_error_and_no_verdict(fixture: HandlerFixture) -> None:
    sandbox = BrokenSandbox()
    workspaces = Workspaces(fixture.state / "workspaces", overlay=False)
    runner = TestRunnerHandler("testrunner-1", fixture.mirrors, workspaces, sandbox, ())
    with pytest.raises(SandboxError, match="forbidden here"):
        await runner.probe()
    report = await tested(fixture, runner, check("true"))
    assert (report.status, report.failure) == ("ERROR", "sandbox_unavailable: user namespaces are forbidden here")
    assert (report.commands, report.tree is not None) == ((), True)


@pytest.mark.parametrize(("size", "ended"), [(100_000, ("PASS", True, "")), (1_000_000, ("FAIL", True, "output"))])
async def test_the_operator_s_limits_hold_and_are_reported(
    fixture: HandlerFixture, size: int, ended: tuple[str, bool, str]
) -> None:
    fixture.baseline = fixture.repository.commit({"talk.py": f"print('x' * {size})\n".encode()})
    narrow = make_handler(Settings(home=fixture.state, limit_output_bytes=4096))
    report = await tested(fixture, narrow, check("python3 talk.py"))
    # It may end by itself before it is ended: the limit alone decides.
    assert (report.status, report.commands[0].truncated, report.commands[0].stopped) == ended
    assert b'"limit of output":"4096"' in codec.encode(report)


async def test_an_acceptance_command_can_rename_a_folder_of_the_baseline(fixture: HandlerFixture) -> None:
    """An overlay answers EXDEV: all commands are run again, from the beginning, in a plain copy; what was said is kept."""
    script = b"from pathlib import Path\nPath('src').rename('library')\nassert Path('library/a.py').read_text() == 'x = 2\\n'\n"
    fixture.baseline = fixture.repository.commit({"move.py": script})
    made = check("test ! -e made.log"), check("touch made.log"), check("python3 move.py")
    report = await tested(fixture, make_handler(Settings(home=fixture.state)), *made)
    assert (report.status, report.failure, [command.exit_code for command in report.commands]) == ("PASS", None, [0, 0, 0])
    said = {artifact.name: output(fixture, artifact.uri) for artifact in report.artifacts}
    assert b"Invalid cross-device link" in said["overlay.check python3.stderr"]


async def test_a_faked_overlay_error_causes_only_one_rerun(fixture: HandlerFixture) -> None:
    script = b"import sys\nsys.exit('OSError: [Errno 18] Invalid cross-device link')\n"
    fixture.baseline = fixture.repository.commit({"fail.py": script})
    report = await tested(fixture, make_handler(Settings(home=fixture.state)), check("python3 fail.py"), check("true"))
    assert (report.status, [command.exit_code for command in report.commands]) == ("FAIL", [1, 0])
    assert [artifact.name for artifact in report.artifacts] == ["overlay.check python3.stderr"]


async def test_a_command_that_tries_the_network_is_reported(fixture: HandlerFixture, runner: TestRunnerHandler) -> None:
    lookup = "python3 -c \"__import__('socket').socket().connect_ex(('198.51.100.7', 443))\""
    report = await tested(fixture, runner, check(lookup), check("python3 is_two.py"))
    assert [command.attempts for command in report.commands] == [
        NetworkAttempts(ipv4=1, ipv6=0),
        NetworkAttempts(ipv4=0, ipv6=0),
    ]
    assert report.status == "PASS"
    words = [remark_line(each) for each in remarks_of_tests(report, None) if each.rule == NETWORK]
    assert words == ["tests: network_attempt: check python3: tried to reach the network 1 time (IPv4)"]
