"""Commands begin beside the look at an environment that is known, and never go by what is no longer there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TestReport
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Environment
from gatewright.environment_state import EnvironmentSnapshot, see_environment
from gatewright.errors import ConfigurationError, DeniedError, SandboxError
from gatewright.sandbox.environments import Shown
from gatewright.services.testrunner import known_environments
from gatewright.services.testrunner.handler import TestRunnerHandler, make_handler
from gatewright.services.testrunner.known_environments import KnownEnvironments, SeenEnvironment
from gatewright.services.testrunner.settings import Settings
from tests.handler_fixture import HandlerFixture, make_handler_fixture

#: Without a sandbox: plants what later tests would load, unless it is there.
PLANT = b"import pathlib, sys; place = pathlib.Path(sys.argv[1]); place.exists() or place.write_text('import os')\n"


class HeldLook:
    """``see_environment``, which is let go on when a test says so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_look = threading.Event()

    def __call__(self, shown: Shown) -> EnvironmentSnapshot | None:
        self.begun.set()
        assert self.may_look.wait(60.0)
        return see_environment(shown)


class Used:
    """What commands were given: one entry each time they begin; they end when ``may_end`` is set."""

    def __init__(self) -> None:
        self.seen: list[SeenEnvironment] = []
        self.ended: list[int] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.fails: Callable[[], BaseException] | None = None

    async def __call__(self, seen: SeenEnvironment) -> None:
        self.seen.append(seen)
        self.begun.set()
        if self.fails is not None and len(self.seen) == 1:
            raise self.fails()
        await self.may_end.wait()
        self.ended.append(len(self.seen))


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    return tmp_path / "env"


@pytest.fixture
async def known(prefix: Path) -> KnownEnvironments:
    """Where the last task has seen ``prefix``."""
    known, used = KnownEnvironments(confined=True), Used()
    used.may_end.set()
    await known.during(prefix, used)
    return known


@pytest.fixture
async def look(monkeypatch: pytest.MonkeyPatch, known: KnownEnvironments) -> AsyncIterator[HeldLook]:
    held = HeldLook()
    monkeypatch.setattr(known_environments, "see_environment", held)
    yield held
    held.may_look.set()


async def test_commands_begin_beside_the_look_at_a_known_environment(
    known: KnownEnvironments, look: HeldLook, prefix: Path
) -> None:
    used = Used()
    running = asyncio.create_task(known.during(prefix, used))
    await used.begun.wait()
    sure = asyncio.ensure_future(used.seen[0].confirmed())
    used.may_end.set()
    await asyncio.wait((running, sure), timeout=0.0)
    assert not running.done()
    assert not sure.done()  # nothing may be kept yet
    look.may_look.set()
    await running
    await sure
    assert (len(used.seen), used.ended) == (1, [1])


async def test_commands_wait_for_the_inspection_of_a_new_environment(prefix: Path) -> None:
    used = Used()
    used.may_end.set()
    await KnownEnvironments(confined=True).during(prefix, used)
    (seen,) = used.seen
    await seen.confirmed()
    assert seen.snapshot == see_environment(prefix)


async def test_commands_restart_in_a_changed_environment(known: KnownEnvironments, look: HeldLook, prefix: Path) -> None:
    (prefix / "bin" / "tool").touch()
    used = Used()
    running = asyncio.create_task(known.during(prefix, used))
    await used.begun.wait()
    sure = asyncio.ensure_future(used.seen[0].confirmed())
    used.begun.clear()
    look.may_look.set()
    await used.begun.wait()
    assert not sure.done()
    sure.cancel()
    used.may_end.set()
    await running
    before, now = (each.snapshot for each in used.seen)
    assert before is not None
    assert now is not None
    assert "bin/tool" not in before.entries
    assert "bin/tool" in now.entries
    assert used.ended == [2]  # the first ones were stopped


async def test_a_failure_in_a_vanished_environment_is_not_believed(
    known: KnownEnvironments, look: HeldLook, prefix: Path
) -> None:
    (prefix / "bin" / "tool").touch()
    look.may_look.set()
    used = Used()
    used.fails = lambda: SandboxError("of an environment that is gone")
    used.may_end.set()
    await known.during(prefix, used)
    assert used.ended == [2]


async def test_failure_in_the_known_environment_is_raised(known: KnownEnvironments, look: HeldLook, prefix: Path) -> None:
    look.may_look.set()
    used = Used()
    used.fails = lambda: SandboxError("of this one")
    with pytest.raises(SandboxError, match="of this one"):
        await known.during(prefix, used)


async def test_change_during_commands_is_refused_and_what_was_known_is_forgotten(
    known: KnownEnvironments, look: HeldLook, prefix: Path
) -> None:
    used = Used()
    running = asyncio.create_task(known.during(prefix, used))
    await used.begun.wait()
    look.may_look.set()
    await used.seen[0].confirmed()
    (prefix / "bin" / "tool").touch()
    used.may_end.set()
    with pytest.raises(DeniedError) as caught:
        await running
    assert caught.value.reason == "environment_changed"
    used = Used()
    used.may_end.set()
    await known.during(prefix, used)
    assert len(used.seen) == 1  # looked at first, as one that is not known


async def test_a_vanished_known_environment_is_an_error(known: KnownEnvironments, look: HeldLook, prefix: Path) -> None:
    used = Used()
    running = asyncio.create_task(known.during(prefix, used))
    await used.begun.wait()
    prefix.rename(prefix.parent / "elsewhere")
    look.may_look.set()
    with pytest.raises(ConfigurationError):
        await running
    assert used.ended == []


async def test_cancelled_task_stops_commands_that_had_begun_beside_the_look(
    known: KnownEnvironments, look: HeldLook, prefix: Path
) -> None:
    used = Used()
    running = asyncio.create_task(known.during(prefix, used))
    await used.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    used.may_end.set()
    await asyncio.sleep(0)
    assert used.ended == []


async def run_tests(fixture: HandlerFixture, runner: TestRunnerHandler, prefix: Path, command: str) -> TestReport:
    task = fixture.contract(task_type="TEST", executor=None, environment=Environment(prefix=str(prefix)))
    patch = fixture.artifacts.hold("candidate.patch", b"")
    tests = (AcceptanceTest(name="unit", cmd=command, must_pass=True),)
    task = replace(task, inputs=Inputs(spec="test it", artifacts=(patch,)), acceptance_tests=tests)
    return await runner.handle(task, fixture.context())


async def test_environment_that_changed_between_two_tasks_is_the_second_ones(tmp_path: Path, prefix: Path) -> None:
    fixture = make_handler_fixture(tmp_path, {"src/a.py": b"x = 1\n"})
    runner = make_handler(Settings(home=fixture.state, environments=(prefix,)))
    first = await run_tests(fixture, runner, prefix, f"ls {prefix}/bin")
    tool = prefix / "bin" / "tool"
    tool.touch()
    second = await run_tests(fixture, runner, prefix, f"ls {prefix}/bin")
    assert (first.status, second.status, len(second.commands)) == ("PASS", "PASS", 1)
    assert b"tool" in fixture.artifacts.stored[second.commands[0].stdout or ""]
    assert first.surroundings is not None
    assert second.surroundings is not None
    assert first.surroundings.environment != second.surroundings.environment
    seen = see_environment(prefix)
    assert seen is not None
    assert second.surroundings.environment == seen.document()


async def test_commands_that_could_write_to_an_environment_wait_for_the_look(look: HeldLook, prefix: Path) -> None:
    """One would be stopped, begin again, and find what it has planted: an environment that did not change."""
    known, used = KnownEnvironments(confined=False), Used()
    used.may_end.set()
    look.may_look.set()
    await known.during(prefix, used)
    look.may_look.clear()
    look.begun.clear()
    running = asyncio.create_task(known.during(prefix, used))
    assert await asyncio.to_thread(look.begun.wait, 60.0)
    assert len(used.seen) == 1
    look.may_look.set()
    await running
    assert len(used.seen) == 2


async def test_an_unsandboxed_command_that_plants_a_file_is_refused(tmp_path: Path, prefix: Path) -> None:
    fixture = make_handler_fixture(tmp_path, {"src/a.py": b"x = 1\n", "plant.py": PLANT})
    runner = make_handler(Settings(home=fixture.state, environments=(prefix,), sandbox="none"))
    assert (await run_tests(fixture, runner, prefix, "true")).status == "PASS"
    planted = prefix / "lib" / "python3.11" / "site-packages" / "sitecustomize.py"
    report = await run_tests(fixture, runner, prefix, f"python3 plant.py {planted}")
    assert (report.status, (report.failure or "").partition(":")[0]) == ("ERROR", "environment_changed")
