"""The embedded stack: what dies comes back, what is stopped stays away, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from gatewright.app.stack import state
from gatewright.app.stack.fork_server import Ahead, open_fork_server
from gatewright.app.stack.launch import ProcessPlan, interpreter
from gatewright.app.stack.processes import identity
from gatewright.app.stack.supervised_process import RestartPolicy
from gatewright.app.stack.supervisor import Supervisor
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.errors import ConfigurationError, UnavailableError
from tests.stack.conftest import DYING, SLEEPER, STUBBORN, MakeStack, make_package
from tests.waiting import PATIENCE, until

WHOLE_STACK = """
import asyncio, os, sys
from pathlib import Path
from gatewright.app.stack.supervisor import StackOptions, Supervisor
async def main():
    home = Path(sys.argv[1])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home / "python")}
    options = StackOptions(home=home, base_environment=environment, roles=("gatekeeper", "worker"), package="roles")
    supervisor = Supervisor(options)
    await supervisor.start()
    print(*(member.pid for member in supervisor.members), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def pid_of(supervisor: Supervisor, name: str) -> int:
    return next(member.pid for member in supervisor.members if member.name == name)


async def test_role_that_is_killed_comes_back_at_once_and_is_counted(make_stack: MakeStack, tmp_path: Path) -> None:
    supervisor = make_stack(workers=2)
    await supervisor.start()
    before = pid_of(supervisor, "worker-2")
    os.kill(before, signal.SIGKILL)
    await until(lambda: pid_of(supervisor, "worker-2") not in (before, 0))
    announced = state.read(tmp_path)
    assert announced is not None
    assert [(member.name, member.restarts) for member in announced.members] == [
        ("nats-server", 0),
        ("fork-server", 0),
        ("gatekeeper", 0),
        ("worker-1", 0),
        ("worker-2", 1),
    ]
    assert announced.members == supervisor.members


async def test_a_dying_role_breaks_the_stack_with_its_log(make_stack: MakeStack) -> None:
    supervisor = make_stack(DYING, policy=RestartPolicy(patience=3, pause=0.01))
    await supervisor.start()
    with pytest.raises(UnavailableError) as broken:
        await asyncio.wait_for(supervisor.broken(), 10)
    assert broken.value.reason == "role_keeps_dying"
    assert "exit code 3" in broken.value.message
    assert "the role says why it dies" in broken.value.message


async def test_role_that_cannot_start_ends_the_wait_with_its_own_cause(make_stack: MakeStack) -> None:
    recorded = '{"event": "service_failed", "code": "approvers_unusable", "cause": "approvers.json: a key is listed twice"}'
    role = f"import sys\nprint({recorded!r}, flush=True)\nsys.exit(2)\n"
    supervisor = make_stack(role, policy=RestartPolicy(patience=3, pause=0.01))
    await supervisor.start()
    with pytest.raises(UnavailableError, match=r"approvers.json: a key is listed twice \(approvers_unusable\)") as broken:
        await supervisor.ready(PATIENCE)
    assert broken.value.reason == "role_keeps_dying"
    assert "{" not in broken.value.message, "no line of the log is quoted"


async def test_a_killed_server_returns_with_its_address_and_data(make_stack: MakeStack) -> None:
    supervisor = make_stack()
    await supervisor.start()
    address, before = supervisor.address, pid_of(supervisor, "nats-server")
    bus = await JetStreamBus.connect(supervisor.address, name="test")
    await bus.publish("gw.dead.worker", b"kept", schema="unknown", message_id="1")
    os.kill(before, signal.SIGKILL)
    await until(lambda: pid_of(supervisor, "nats-server") != before)
    assert supervisor.address == address
    assert [message.data async for message in bus.replay("gw.dead.*")] == [b"kept"]
    await bus.close()


async def test_stop_leaves_no_process_and_no_announcement(make_stack: MakeStack, tmp_path: Path) -> None:
    supervisor = make_stack(workers=2)
    await supervisor.start()
    pids = [member.pid for member in supervisor.members]
    assert len(pids) == 5
    await supervisor.stop()
    assert [pid for pid in pids if identity(pid)] == []
    assert state.read(tmp_path) is None
    assert not (tmp_path / state.STATE_FILE).exists()


LISTENER = """
import signal
ASKED = (signal.SIGTERM, signal.SIGINT)
signal.pthread_sigmask(signal.SIG_BLOCK, ASKED)
print("listening", flush=True)
print(int(signal.sigwait(ASKED)))
"""


@pytest.mark.parametrize(("idle", "number"), [(False, signal.SIGTERM), (True, signal.SIGINT)])
async def test_idle_roles_are_stopped_immediately(
    make_stack: MakeStack, tmp_path: Path, *, idle: bool, number: signal.Signals
) -> None:
    supervisor = make_stack(LISTENER, grace=10.0)
    await supervisor.start()
    log = tmp_path / "logs" / "worker-1.log"
    await until(lambda: log.exists() and "listening" in log.read_text())
    await supervisor.stop(idle=idle)
    assert log.read_text().split() == ["listening", str(int(number))]


async def test_a_fork_server_that_was_opened_ahead_is_used_once(make_stack: MakeStack) -> None:
    options = make_stack().options
    opened = await open_fork_server(options.home, options.base_environment, options.roles, options.package)
    supervisor = Supervisor(replace(options, ahead=Ahead(opened)))
    await supervisor.start()
    assert opened.pid in [member.pid for member in supervisor.members]
    await supervisor.stop()
    assert identity(opened.pid) is None
    await supervisor.start()
    (other,) = [member.pid for member in supervisor.members if member.name == "fork-server"]
    assert other != opened.pid
    await supervisor.stop()


async def test_a_fork_server_that_was_opened_ahead_and_died_is_replaced(make_stack: MakeStack) -> None:
    options = make_stack().options
    opened = await open_fork_server(options.home, options.base_environment, options.roles, options.package)
    os.kill(opened.pid, signal.SIGKILL)
    await until(lambda: not opened.alive)
    supervisor = Supervisor(replace(options, ahead=Ahead(opened)))
    await supervisor.start()
    assert [member.name for member in supervisor.members][:2] == ["nats-server", "fork-server"]
    await supervisor.stop()


async def test_an_unneeded_fork_server_is_stopped_immediately(make_stack: MakeStack) -> None:
    ahead = Ahead(opened := await open_fork_server(make_stack().options.home, {}))
    await ahead.close()
    assert identity(opened.pid) is None
    assert ahead.take() is None


async def test_a_stack_reports_role_failures_without_waiting_for_roles(
    make_stack: MakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, missing = make_stack(), asyncio.Event()

    async def launch(_plan: ProcessPlan) -> NoReturn:
        await missing.wait()
        raise ConfigurationError("the program is missing")

    monkeypatch.setattr(supervisor, "_launch", launch)
    await supervisor.begin()
    broken = asyncio.create_task(supervisor.broken())
    assert {member.pid for member in supervisor.members if member.name == "worker-1"} == {0}
    missing.set()
    with pytest.raises(ConfigurationError, match="the program is missing"):
        await broken
    await supervisor.stop()
    assert supervisor.members == ()


async def test_an_incomplete_stack_can_be_stopped(make_stack: MakeStack) -> None:
    supervisor = make_stack(LISTENER)
    await supervisor.begin()
    fork_server = next(member.pid for member in supervisor.members if member.name == "fork-server")
    broken = asyncio.create_task(supervisor.broken())
    await asyncio.sleep(0)
    await supervisor.stop()
    assert identity(fork_server) is None
    assert supervisor.members == ()
    broken.cancel()
    await asyncio.gather(broken, return_exceptions=True)


async def test_role_that_will_not_leave_is_killed_with_its_children(make_stack: MakeStack) -> None:
    supervisor = make_stack(STUBBORN)
    await supervisor.start()
    workers = Path("/proc") / str(pid_of(supervisor, "worker-1")) / "task"
    children = workers / str(pid_of(supervisor, "worker-1")) / "children"
    await until(lambda: bool(children.read_text().split()))
    child = int(children.read_text().split()[0])
    await supervisor.stop()
    await until(lambda: identity(child) is None)
    assert supervisor.members == ()


async def test_second_stack_in_the_same_home_is_refused_and_harms_nothing(make_stack: MakeStack, tmp_path: Path) -> None:
    first, second = make_stack(), make_stack()
    await first.start()
    with pytest.raises(UnavailableError) as refused:
        await second.start()
    assert refused.value.reason == "home_in_use"
    await second.stop()
    announced = state.read(tmp_path)
    assert announced is not None
    assert announced.address() == first.address


async def test_home_can_be_used_again_after_a_stop_or_a_failed_start(make_stack: MakeStack, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with pytest.raises(ConfigurationError):
        await make_stack().start()
    (tmp_path / "logs").unlink()
    assert state.read(tmp_path) is None
    for _ in range(2):
        supervisor = make_stack()
        await supervisor.start()
        await supervisor.stop()


async def test_silent_roles_are_named_when_the_stack_does_not_get_ready(make_stack: MakeStack) -> None:
    supervisor = make_stack()
    await supervisor.start()
    with pytest.raises(UnavailableError, match="gatekeeper, worker") as silent:
        await supervisor.ready(0.2)
    assert silent.value.reason == "not_ready"


async def test_logs_of_the_roles_are_kept_apart(make_stack: MakeStack, tmp_path: Path) -> None:
    supervisor = make_stack(DYING, workers=2)
    await supervisor.start()
    logs = [tmp_path / "logs" / f"{name}.log" for name in ("gatekeeper", "worker-1", "worker-2")]
    await until(lambda: all(log.exists() and b"why it dies" in log.read_bytes() for log in logs))
    # Each start writes one line, and each role is started a few times at most before it is given up.
    assert [set(log.read_text().splitlines()) for log in logs] == [{"the role says why it dies"}] * 3


def test_killed_supervisor_takes_every_process_with_it(tmp_path: Path) -> None:
    make_package(tmp_path, SLEEPER)
    process = subprocess.Popen([sys.executable, "-c", WHOLE_STACK, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 4
    assert all(identity(pid) for pid in pids)
    process.kill()
    process.wait()
    process.stdout.close()
    asyncio.run(until(lambda: not any(identity(pid) for pid in pids)))
    assert state.read(tmp_path) is None, "what a dead supervisor announced is not believed"


def test_folder_named_services_where_the_user_stands_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "gatewright").mkdir()
    (tmp_path / "gatewright" / "__init__.py").write_text("raise SystemExit('hijacked')")
    done = subprocess.run(
        interpreter("gatewright.services.no_such_role"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "hijacked" not in done.stderr
    assert "No module named gatewright.services.no_such_role" in done.stderr


TELLER = "import os, time; print(os.environ['GATEWRIGHT_ENVIRONMENTS'], flush=True); time.sleep(600)"


async def test_environments_of_the_options_come_beside_those_of_the_operator(make_stack: MakeStack, tmp_path: Path) -> None:
    supervisor = make_stack(TELLER, offered="/opt/a:/opt/b", environments=(Path("/opt/b"), Path("/opt/c")))
    await supervisor.start()
    log = tmp_path / "logs" / "worker-1.log"
    await until(lambda: log.exists() and log.read_text() == "/opt/a:/opt/b:/opt/c\n")
    announced = state.read(tmp_path)
    assert announced is not None
    assert announced.environments == ("/opt/a", "/opt/b", "/opt/c")
