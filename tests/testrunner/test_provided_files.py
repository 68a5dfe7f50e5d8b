"""Files that commands are shown beside the repository's: found by the worker's and the test runner's commands, never landed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Executor
from gatewright.services.testrunner.handler import make_handler as make_test_runner
from gatewright.services.testrunner.settings import Settings as RunnerSettings
from gatewright.services.worker.handler import make_handler as make_worker
from gatewright.services.worker.settings import Settings as WorkerSettings
from gatewright.tasks.provided import MOST_BYTES
from tests.handler_fixture import HandlerFixture, make_handler_fixture

VERSION = b"version = '1.2'\n"
FILES = {"src/a.py": b"x = 1\n", "look.py": b"import runpy\nassert runpy.run_path('src/_version.py')['version'] == '1.2'\n"}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


def inputs(fixture: HandlerFixture, content: bytes = VERSION, path: str = "src/_version.py", patch: bytes = b"") -> Inputs:
    hold = fixture.artifacts.hold
    return Inputs(spec="do it", artifacts=(hold("candidate.patch", patch), hold(f"provide:{path}", content)))


async def test_an_acceptance_command_finds_a_provided_file(fixture: HandlerFixture) -> None:
    runner = make_test_runner(RunnerSettings(home=fixture.state))
    checks = (AcceptanceTest(name="look", cmd="python3 look.py", must_pass=True),)
    agent = Agent(role="TEST_RUNNER", agent_id="testrunner-1")
    task = fixture.contract(task_type="TEST", assigned_agent=agent, executor=None, acceptance_tests=checks)
    for given, status in ((inputs(fixture), "PASS"), (inputs(fixture, path="elsewhere"), "FAIL")):
        report = await runner.handle(_with(task, given), fixture.context())
        assert report.status == status, report.failure
        assert report.artifacts == (), "a provided file is no file that the commands edited"


async def test_a_candidate_that_replaces_a_provided_file_is_not_tested(fixture: HandlerFixture) -> None:
    runner = make_test_runner(RunnerSettings(home=fixture.state))
    checks = (AcceptanceTest(name="look", cmd="python3 look.py", must_pass=True),)
    agent = Agent(role="TEST_RUNNER", agent_id="testrunner-1")
    _, patch = await fixture.changed({"src/_version.py": b"version = 'broken'\n"})
    task = fixture.contract(task_type="TEST", assigned_agent=agent, executor=None, acceptance_tests=checks)
    report = await runner.handle(_with(task, inputs(fixture, patch=patch)), fixture.context())
    assert (report.status, report.commands) == ("ERROR", ())
    assert report.failure is not None
    assert report.failure.startswith("place_not_free: src/_version.py")


async def test_a_changed_provided_file_is_no_part_of_a_change(fixture: HandlerFixture) -> None:
    worker = make_worker(WorkerSettings(home=fixture.state))
    script = (
        b"a = open('src/_version.py').read()\nopen('src/_version.py', 'w').write('other')\nopen('src/a.py', 'w').write(a)\n"
    )
    fixture.baseline = fixture.repository.commit({"tools/write.py": script})
    executor = Executor(kind="command", commands=("python3 tools/write.py",))
    result = await worker.handle(_with(fixture.contract(executor=executor), inputs(fixture)), fixture.context())
    assert (result.status, result.git.changed_files) == ("SUCCESS", ("src/a.py",))
    assert VERSION.strip() in fixture.artifacts.stored[result.git.patch]


async def test_a_provided_file_that_is_too_large_is_not_shown(fixture: HandlerFixture) -> None:
    worker = make_worker(WorkerSettings(home=fixture.state))
    task = fixture.contract(executor=Executor(kind="command", commands=("true",)))
    result = await worker.handle(_with(task, inputs(fixture, b"x" * (MOST_BYTES + 1))), fixture.context())
    assert (result.status, (result.failure or "").partition(":")[0]) == ("FAILED", "provided_too_large")


def _with(task: TaskContract, given: Inputs) -> TaskContract:
    return replace(task, inputs=given)
