"""Environments that are not what the operator offered: brought by the repository, or changed while the run uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskResult, TestReport
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Environment, Executor, Surroundings
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.environment_state import see_environment
from gatewright.host_facts import surroundings
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck
from gatewright.services.testrunner.handler import make_handler as make_test_runner
from gatewright.services.testrunner.settings import Settings as RunnerSettings
from gatewright.services.worker.handler import make_handler as make_worker
from gatewright.services.worker.settings import Settings as WorkerSettings
from tests.attacks.real_gate import RUN, RealGate, codes, make_test, make_test_report, open_gate, ran
from tests.factories import make_request
from tests.git.repositories import MakeRepository
from tests.handler_fixture import HandlerFixture, make_handler_fixture

Walls = Literal["bubblewrap", "none"]
PLANT = b"import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('import os')\n"


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, {"src/a.py": b"x = 1\n", "plant.py": PLANT})


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment of the operator's, without an interpreter of its own."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    return tmp_path / "env"


async def work(fixture: HandlerFixture, prefix: Path, command: str, sandbox: Walls = "bubblewrap") -> TaskResult:
    worker = make_worker(WorkerSettings(home=fixture.state, environments=(prefix,), sandbox=sandbox))
    executor = Executor(kind="command", commands=(command,))
    return await worker.handle(
        fixture.contract(executor=executor, environment=Environment(prefix=str(prefix))), fixture.context()
    )


async def run_tests(fixture: HandlerFixture, prefix: Path, command: str, sandbox: Walls = "bubblewrap") -> TestReport:
    runner = make_test_runner(RunnerSettings(home=fixture.state, environments=(prefix,), sandbox=sandbox))
    task = fixture.contract(task_type="TEST", executor=None, environment=Environment(prefix=str(prefix)))
    task = replace(
        task,
        inputs=Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", b""),)),
        acceptance_tests=(AcceptanceTest(name="unit", cmd=command, must_pass=True),),
    )
    return await runner.handle(task, fixture.context())


def code_of(failure: str | None) -> str:
    return (failure or "").partition(":")[0]


async def test_environment_in_the_repository_is_not_shown(fixture: HandlerFixture, tmp_path: Path) -> None:
    """A tracked ``.venv`` whose ``pyvenv.cfg`` says ``home = /home/secret``: listed by the operator, all the same."""
    (tmp_path / "secret" / "bin").mkdir(parents=True)
    (tmp_path / "secret" / "password").write_text("hunter2")
    settings = f"home = {tmp_path}/secret/bin\n".encode()
    fixture.baseline = fixture.repository.commit({".venv/pyvenv.cfg": settings, ".venv/bin/tool": b"#!/bin/sh\n"})
    prefix = fixture.repository.path / ".venv"
    read = f"cat {tmp_path}/secret/password"
    result = await work(fixture, prefix, read)
    assert (result.status, code_of(result.failure)) == ("FAILED", "environment_tracked")
    report = await run_tests(fixture, prefix, read)
    assert (report.status, code_of(report.failure)) == ("ERROR", "environment_tracked")
    assert not any(b"hunter2" in data for data in fixture.artifacts.stored.values())


async def test_run_with_an_environment_in_the_repository_is_not_accepted(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository()
    repository.commit({".venv/pyvenv.cfg": b"home = /home/secret/bin\n"})
    asked = make_request(
        repository=RepositoryField(url=repository.url),
        baseline_ref="main",
        environment=Environment(prefix=f"{repository.url}/.venv"),
    )
    async with open_gate(repository, tmp_path) as gate:
        verdict = await gate.gates.answer(IntakeCheck(RUN, asked))
    assert codes(verdict.report) == ["environment_tracked"]


async def test_command_that_plants_a_file_in_its_environment_is_noticed(fixture: HandlerFixture, prefix: Path) -> None:
    """Without a sandbox nothing keeps a command from it, and the tests would load what it planted."""
    planted = prefix / "lib" / "python3.11" / "site-packages" / "sitecustomize.py"
    result = await work(fixture, prefix, f"python3 plant.py {planted}", sandbox="none")
    assert (result.status, code_of(result.failure)) == ("FAILED", "environment_changed")
    assert "sitecustomize.py" in (result.failure or "")
    planted.unlink()
    report = await run_tests(fixture, prefix, f"python3 plant.py {planted}", sandbox="none")
    assert (report.status, code_of(report.failure)) == ("ERROR", "environment_changed")
    assert report.commands[0].exit_code == 0


async def test_environment_that_stays_as_it_was_is_recorded_by_both(fixture: HandlerFixture, prefix: Path) -> None:
    result, report = await work(fixture, prefix, "true"), await run_tests(fixture, prefix, "true")
    assert (result.status, report.status) == ("SUCCESS", "PASS")
    assert result.surroundings is not None
    assert report.surroundings is not None
    assert result.surroundings.environment == report.surroundings.environment
    assert result.surroundings.environment is not None


UNIT = make_test("unit")


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(), tmp_path, acceptance_tests=(UNIT,)) as opened:
        yield opened


def now(prefix: Path) -> Surroundings:
    return surroundings(environment=see_environment(prefix))


async def judged(gate: RealGate, worked: Surroundings, tested: Surroundings) -> list[str]:
    """The codes of the tests gate, when worker and test runner saw these environments."""
    tree = await gate.compose(gate.patch({"src/app.py": b"two\n"}))
    (task,) = gate.run.workers()
    assert task.result is not None
    done = replace(task, result=replace(task.result, surroundings=worked))
    gate.run = replace(gate.run, tasks={task.task_id: done})
    report = replace(make_test_report(tree, ran(UNIT)), surroundings=tested)
    assert report.runner == Agent(role="TEST_RUNNER", agent_id="testrunner-1")
    return codes(await gate.tests(report))


async def test_an_environment_changed_before_its_tests_fails_the_tests_gate(gate: RealGate, prefix: Path) -> None:
    before = now(prefix)
    assert await judged(gate, before, now(prefix)) == []
    (prefix / "lib" / "python3.11" / "site-packages" / "sitecustomize.py").touch()
    assert await judged(gate, before, now(prefix)) == ["environment_changed"]


async def test_environments_of_two_hosts_are_not_compared(gate: RealGate, prefix: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    assert await judged(gate, now(prefix), now(other)) == []
