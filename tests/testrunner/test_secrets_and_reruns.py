"""Outputs without secrets; a second run where the contract allows one; the limit that ended a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TestReport, codec
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Agent
from gatewright.rules.reports.tests import how_it_ended
from gatewright.services.testrunner.commands import summarise
from gatewright.services.testrunner.handler import make_handler
from gatewright.services.testrunner.settings import Settings
from tests.attacks import planted
from tests.attacks.real_gate import make_test, ran
from tests.handler_fixture import HandlerFixture, make_handler_fixture

HALVES = f"{planted.GITHUB[:10]!r} + {planted.GITHUB[10:]!r}"
FILES = {
    "leak.py": f"import sys\nprint('ok')\nprint({HALVES}, file=sys.stderr)\n".encode(),
    # Fails once, and leaves a mark: flaky as tests are that depend on what ran before.
    "flaky.py": b"import os, sys\nif not os.path.exists('mark'):\n    open('mark', 'w').close()\n    sys.exit(3)\n",
    "broken.py": b"import sys\nsys.exit(3)\n",
    "loud.py": b"while True:\n    print('x' * 1000)\n",
}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    # Commands run as another user than root: the way to the workspaces must be open to it.
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


async def report_of(fixture: HandlerFixture, *tests: AcceptanceTest, settings: Settings | None = None) -> TestReport:
    inputs = Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", b""),))
    runner = Agent(role="TEST_RUNNER", agent_id="testrunner-1")
    task = fixture.contract(task_type="TEST", task_id="run-0123456789.test.a1", assigned_agent=runner, executor=None)
    handler = make_handler(settings or Settings(home=fixture.state))
    report = await handler.handle(replace(task, inputs=inputs, acceptance_tests=tests), fixture.context())
    return codec.decode(codec.encode(report), TestReport)


async def test_output_is_stored_without_its_secrets_and_with_a_record(fixture: HandlerFixture) -> None:
    report = await report_of(fixture, make_test("leak"))
    (command,) = report.commands
    assert fixture.artifacts.stored[command.stdout] == b"ok\n"
    assert fixture.artifacts.stored[command.stderr] == b"[redacted:github_token]\n"
    (record,) = report.artifacts
    assert record.name == "redactions"
    assert json.loads(fixture.artifacts.stored[record.uri])[0]["place"] == "leak.stderr"
    assert planted.GITHUB.encode() not in b"".join(fixture.artifacts.stored.values()) + codec.encode(report)


async def test_a_failed_command_runs_again_where_the_contract_allows_it(fixture: HandlerFixture) -> None:
    report = await report_of(fixture, make_test("flaky", may_rerun=True), make_test("leak"))
    assert report.status == "PASS"
    assert [(command.name, command.run, command.exit_code) for command in report.commands] == [
        ("flaky", 1, 3),
        ("flaky", 2, 0),
        ("leak", 1, 0),
    ]
    assert report.summary is not None
    assert (report.summary.passed, report.summary.failed) == (2, 0)


async def test_a_failed_command_does_not_run_again_by_itself(fixture: HandlerFixture) -> None:
    report = await report_of(fixture, make_test("flaky"))
    assert (report.status, len(report.commands)) == ("FAIL", 1)


async def test_a_second_failure_is_a_failure(fixture: HandlerFixture) -> None:
    report = await report_of(fixture, make_test("broken", may_rerun=True))
    assert [command.run for command in report.commands] == [1, 2]
    assert report.failure == "tests_failed: broken ended with 3, and so it did when it was run again"


async def test_the_limit_that_ended_a_command_is_reported(fixture: HandlerFixture) -> None:
    report = await report_of(fixture, make_test("loud"), settings=Settings(home=fixture.state, limit_output_bytes=1 << 20))
    (command,) = report.commands
    assert (command.stopped, command.truncated) == ("output", True)
    assert report.failure == "tests_failed: loud was killed at its limit of output"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exit_code": 137}, "was ended by SIGKILL (137)"),
        ({"exit_code": -11}, "was ended by SIGSEGV (-11)"),
        ({"exit_code": 255}, "ended with 255"),
        ({"exit_code": 137, "timed_out": True, "stopped": "time"}, "was killed after 60 s"),
        ({"exit_code": 137, "stopped": "memory"}, "was killed at its limit of memory"),
    ],
)
def test_the_end_of_a_command_is_described(changes: dict[str, object], words: str) -> None:
    assert how_it_ended(replace(ran(make_test("unit")), **changes)) == words


def test_a_second_run_is_not_counted_twice() -> None:
    unit, slow = make_test("unit"), make_test("slow", may_rerun=True)
    summary = summarise([ran(unit), ran(slow, 1), ran(slow, run=2)], planned=3)
    assert (summary.passed, summary.failed, summary.skipped) == (2, 0, 1)
