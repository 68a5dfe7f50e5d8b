"""The fork server: forked processes are processes of their own, and do not depend on its health."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gatewright.app.stack import fork_server_process
from gatewright.app.stack.fork_server import ForkServer
from gatewright.app.stack.launch import ProcessPlan
from gatewright.app.stack.processes import identity
from gatewright.errors import UnavailableError
from tests.stack.conftest import SLEEPER, MakeStack, make_package
from tests.waiting import PATIENCE, until

TELLER = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "sid": os.getsid(0), "pid": os.getpid(),
                  "name": __name__, "open": sorted(map(int, os.listdir("/proc/self/fd")))[:4],
                  "title": open("/proc/self/cmdline").read().rstrip(chr(0)), "comm": open("/proc/self/comm").read().strip()}))
sys.exit(7)
"""


def make_plan(folder: Path, environment: dict[str, str], role: str = "worker") -> ProcessPlan:
    return ProcessPlan("worker-2", f"roles.{role}", {**environment, "ONLY": "mine"}, folder, folder / "logs" / "worker-2.log")


async def test_forked_process_is_its_own_in_every_respect(tmp_path: Path) -> None:
    environment = make_package(tmp_path, TELLER)
    fork_server = await ForkServer.open(["roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    assert await forked.wait() == 7
    told = json.loads((tmp_path / "logs" / "worker-2.log").read_text())
    assert told["env"] == {**environment, "ONLY": "mine"}
    assert (told["cwd"], told["name"], told["pid"], told["sid"]) == (str(tmp_path), "__main__", forked.pid, forked.pid)
    assert told["open"] == [0, 1, 2, 3], "the listing itself has the last one"
    assert (told["title"], told["comm"]) == ("roles.worker (worker-2)", "worker-2")
    await fork_server.close()


async def test_forked_process_finds_the_catalogue_of_secrets_loaded(tmp_path: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from gatewright.secrets import kingfisher
was_loaded = bool(kingfisher._LOADED)
hits = list(kingfisher.Kingfisher(Path("nowhere")).find(b"gh" + b"p_" + b"7hF2kQ9mZx4LbVt8WcRy3NpDs6JgUaEoX1Bi"))
sys.exit(40 + was_loaded + len(hits))
"""
    environment = make_package(tmp_path, program)
    log = tmp_path / "logs" / "fork-server.log"
    fork_server = await ForkServer.open(["roles.worker"], environment, log, secrets=tmp_path / "rules")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    assert await forked.wait() == 42, (tmp_path / "logs" / "worker-2.log").read_text()
    await fork_server.close()


async def test_output_of_an_import_does_not_disturb_the_reports(tmp_path: Path) -> None:
    environment = make_package(tmp_path, SLEEPER)
    (tmp_path / "python" / "roles" / "worker" / "__init__.py").write_text("print('{not a report')")
    fork_server = await ForkServer.open(["roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    assert identity(forked.pid) is not None
    await fork_server.close()
    assert identity(forked.pid) is None
    assert b"{not a report" in (tmp_path / "logs" / "fork-server.log").read_bytes()


async def test_program_that_cannot_be_imported_fails_in_its_own_process_and_log(tmp_path: Path) -> None:
    environment = make_package(tmp_path, SLEEPER)
    fork_server = await ForkServer.open(["roles.absent", "roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    absent = await fork_server.fork(make_plan(tmp_path, environment, "absent"))
    assert await absent.wait() == 1
    assert "No module named roles.absent" in (tmp_path / "logs" / "worker-2.log").read_text()
    worker = await fork_server.fork(make_plan(tmp_path, environment))
    assert identity(worker.pid) is not None
    await fork_server.close()


@pytest.mark.parametrize(
    ("leaving", "code"), [("sys.exit()", 0), ("sys.exit('why')", 1), ("raise KeyError('why')", 1), ("", 0)]
)
async def test_forked_process_keeps_its_exit_code_and_exit_handlers(leaving: str, code: int, tmp_path: Path) -> None:
    program = f"import atexit, sys\natexit.register(lambda: print('kept'))\nprint('said', end=' ')\n{leaving}\n"
    environment = make_package(tmp_path, program)
    fork_server = await ForkServer.open(["roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    assert await forked.wait() == code
    told = (tmp_path / "logs" / "worker-2.log").read_text()
    assert "said kept" in told
    assert ("why" in told) == ("why" in leaving)
    await fork_server.close()


async def test_killed_process_is_reported_with_its_signal(tmp_path: Path) -> None:
    environment = make_package(tmp_path, SLEEPER)
    fork_server = await ForkServer.open(["roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    os.kill(forked.pid, signal.SIGKILL)
    assert await asyncio.wait_for(forked.wait(), PATIENCE) == -signal.SIGKILL
    await fork_server.close()


async def test_a_dead_fork_server_forks_nothing_and_its_children_died(tmp_path: Path) -> None:
    environment = make_package(tmp_path, SLEEPER)
    fork_server = await ForkServer.open(["roles.worker"], environment, tmp_path / "logs" / "fork-server.log")
    forked = await fork_server.fork(make_plan(tmp_path, environment))
    os.kill(fork_server.pid, signal.SIGKILL)
    assert await asyncio.wait_for(forked.wait(), PATIENCE) == -signal.SIGKILL
    await until(lambda: identity(forked.pid) is None)
    await until(lambda: not fork_server.alive)
    with pytest.raises(UnavailableError):
        await fork_server.fork(make_plan(tmp_path, environment))
    await fork_server.close()


async def test_stack_goes_on_without_its_fork_server(make_stack: MakeStack) -> None:
    supervisor = make_stack()
    await supervisor.start()
    before = {member.name: member.pid for member in supervisor.members}
    assert "fork-server" in before
    os.kill(before["fork-server"], signal.SIGKILL)

    def all_back() -> bool:
        now = {member.name: member.pid for member in supervisor.members}
        return all(now[name] not in (0, before[name]) for name in ("gatekeeper", "worker-1")) and "fork-server" not in now

    await until(all_back)
    assert all(identity(member.pid) for member in supervisor.members)


def test_preloading_leaves_the_main_programs_to_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package(tmp_path, SLEEPER)
    monkeypatch.syspath_prepend(tmp_path / "python")
    for module in ("roles.worker", "roles.absent"):
        fork_server_process.preload(module)
    assert "roles.worker" in sys.modules
    assert "roles.worker.__main__" not in sys.modules
    for name in ("roles", "roles.worker"):
        del sys.modules[name]
