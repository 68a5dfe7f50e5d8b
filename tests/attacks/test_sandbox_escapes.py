"""Hostile codemods and hostile tests that came with a repository, run as the worker and the test runner run them.

Each attack goes the whole way: the real sandbox, the collected change, the gate's verdict on it. The walls one by one, and each
limit, have tests of their own in tests/sandbox.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import GateReport, TaskResult, TestReport
from gatewright.contracts.task_contract import Inputs
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Executor, TimeoutRetry
from gatewright.git.mirror import Mirrors
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.change.candidate import judge_patch
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.testrunner.handler import make_handler as make_testrunner
from gatewright.services.testrunner.settings import Settings as RunnerSettings
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from tests.attacks.real_gate import codes
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run
from tests.handler_fixture import HandlerFixture, make_handler_fixture

RUN = "run-0123456789"
FILES = {
    "README.md": b"read me\n",
    "src/a.py": b"x = 1\n",
    "src/b.py": b"y = 1\n",
    "src/check.py": b"import runpy\nassert runpy.run_path('src/a.py')['x'] == 2\n",
}
SECRET = "the-host-s-own-secret-4711"


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    # Commands run as another user than root: the way to the workspaces must be open to it.
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


@pytest.fixture
def worker(fixture: HandlerFixture) -> WorkerHandler:
    return make_handler(Settings(home=fixture.state))


async def run_codemod(fixture: HandlerFixture, worker: WorkerHandler, script: str, *, seconds: float = 30.0) -> TaskResult:
    """The worker's result when the repository's own ``tools/codemod.py`` is the executor."""
    fixture.baseline = fixture.repository.commit({"tools/codemod.py": script.encode()})
    limits = TimeoutRetry(timeout_sec=seconds, max_retries=0, retry_backoff_sec=0)
    contract = fixture.contract(executor=Executor(kind="command", commands=("python3 tools/codemod.py",)), timeout_retry=limits)
    return await worker.handle(contract, fixture.context())


async def judged(fixture: HandlerFixture, result: TaskResult, tmp_path: Path) -> GateReport:
    """What the diff gate says of the patch that the worker handed over."""
    patch = fixture.artifacts.stored[result.git.patch] if result.git.patch else b""
    mirror = await Mirrors(tmp_path / "judging").open(fixture.repository.url)
    await mirror.ensure(fixture.baseline)
    contract = fixture.contract()
    run = make_open_run(RUN, contract, fixture.baseline, await mirror.tree_of(fixture.baseline))
    context = make_context(RUN, "diff").of_change(contract, mirror)
    await judge_patch(context, SecretsCheck(), patch, run)
    return context.close()


async def test_a_codemod_that_plants_a_hook_in_the_workspace(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = """
import os, pathlib
for name in (".git/hooks/pre-commit", "src/.git/hooks/post-checkout"):
    hook = pathlib.Path(name); hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text("#!/bin/sh\\ntouch /tmp/owned\\n"); hook.chmod(0o755)
"""
    result = await run_codemod(fixture, worker, script)
    assert result.status == "FAILED"
    assert (result.failure or "").startswith("git_path")
    assert result.git.patch == ""
    hooks = fixture.repository.path / ".git/hooks"
    assert not hooks.exists() or not list(hooks.glob("pre-commit"))


@pytest.mark.parametrize("name", [".claude/settings.json", ".codex/config.toml", "AGENTS.md", ".cursorrules", "src/CLAUDE.md"])
async def test_a_codemod_that_creates_control_files_that_were_not_there(
    name: str, fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    script = f"""
import pathlib
file = pathlib.Path({name!r}); file.parent.mkdir(parents=True, exist_ok=True); file.write_text("run: anything")
"""
    result = await run_codemod(fixture, worker, script)
    report = await judged(fixture, result, tmp_path)
    assert report.verdict == "FAIL"
    assert "path_protected" in codes(report)


async def test_a_codemod_that_writes_to_the_host_through_a_link(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    victim.chmod(0o666)
    script = f"""
import os, pathlib
os.symlink({str(victim)!r}, "src/link")
try:
    pathlib.Path("src/link").write_text("owned")
except OSError as error:
    print("refused", error)
"""
    result = await run_codemod(fixture, worker, script)
    assert victim.read_text() == "untouched"
    assert codes(await judged(fixture, result, tmp_path)) == ["symlink_refused", "symlink_escapes"]


async def test_a_codemod_that_swaps_a_folder_for_a_host_link(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "a.py").write_text(SECRET)
    script = f"""
import os, shutil
shutil.rmtree("src"); os.symlink({str(secrets)!r}, "src")
"""
    result = await run_codemod(fixture, worker, script)
    assert SECRET.encode() not in b"".join(fixture.artifacts.stored.values())
    assert "symlink_refused" in codes(await judged(fixture, result, tmp_path))


async def test_a_codemod_that_looks_for_secrets_of_the_host(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWRIGHT_TEST_TOKEN", SECRET)
    (tmp_path / "home/.netrc").write_text(SECRET)
    (fixture.state / "keys").mkdir(parents=True)
    (fixture.state / "keys/gatekeeper.pem").write_text(SECRET)
    script = f"""
import glob, os, pathlib
found = [repr(os.environ)]
for pattern in ("/proc/*/environ", "/proc/*/cmdline", {str(tmp_path / "home/.netrc")!r}, {str(fixture.state / "keys/*")!r},
                "/root/.*", "/home/*/.*", "/run/*", "/var/run/secrets/**", "/etc/shadow", "/etc/ssh/*_key"):
    for name in glob.glob(pattern):
        try:
            found.append(name + pathlib.Path(name).read_text(errors="replace"))
        except OSError:
            pass
pathlib.Path("src/a.py").write_text("FOUND = " + repr("\\n".join(found)))
"""
    result = await run_codemod(fixture, worker, script)
    assert result.status == "SUCCESS", result.failure
    everything = b"".join(fixture.artifacts.stored.values())
    assert b"FOUND" in everything
    assert SECRET.encode() not in everything
    assert b"PRIVATE KEY" not in everything


async def test_a_codemod_that_talks_to_a_service_of_the_host(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        done = threading.Event()

        def listen() -> None:
            while not done.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    heard.append(connection.recv(100))

        listener = threading.Thread(target=listen)
        listener.start()
        port = server.getsockname()[1]
        script = f"""
import socket, sys
for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "169.254.169.254", "192.0.2.1"):
    try:
        socket.create_connection((host, {port}), timeout=1).sendall(b"hello from inside")
        print("reached", host)
    except OSError as error:
        print("kept from", host, error)
open("src/a.py", "w").write("x = 2\\n")
"""
        result = await run_codemod(fixture, worker, script)
        done.set()
        listener.join()
    (stdout,) = (fixture.artifacts.stored[each.uri] for each in result.artifacts if each.name == "stdout")
    assert heard == []
    assert b"reached" not in stdout
    assert stdout.count(b"kept from") == 6


async def test_a_codemod_whose_daemon_edits_files_after_its_end(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    script = """
import os, sys, time
open("src/a.py", "w").write("x = 2\\n")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(3): os.close(n)
        time.sleep(0.5)
        open("README.md", "w").write("mine")
        os._exit(0)
    os._exit(0)
"""
    result = await run_codemod(fixture, worker, script)
    assert result.git.changed_files == ("src/a.py",)
    assert codes(await judged(fixture, result, tmp_path)) == []


@pytest.mark.parametrize(
    "script",
    [
        "import os\nos.mkfifo('src/pipe')\n",
        "import socket\nsocket.socket(socket.AF_UNIX).bind('src/socket')\n",
    ],
    ids=["fifo", "socket"],
)
async def test_a_codemod_that_leaves_something_that_would_block_or_fool_the_collector(
    script: str, fixture: HandlerFixture, worker: WorkerHandler
) -> None:
    result = await run_codemod(fixture, worker, script)
    assert result.status == "FAILED"
    assert (result.failure or "").startswith("special_file")


async def test_a_codemod_that_makes_its_files_unreadable(
    fixture: HandlerFixture, worker: WorkerHandler, tmp_path: Path
) -> None:
    script = "import os\nopen('src/new.py', 'w').write('x')\nos.chmod('src/new.py', 0)\nos.chmod('src', 0)\n"
    result = await run_codemod(fixture, worker, script)
    if result.status == "SUCCESS":
        assert result.git.changed_files == ("src/new.py",)
        assert codes(await judged(fixture, result, tmp_path)) == []
    else:
        assert result.git.patch == ""


@pytest.mark.long
async def test_a_fork_bomb(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await run_codemod(fixture, worker, "import os\nwhile True:\n    os.fork()\n", seconds=3.0)
    assert result.status == "FAILED"
    again = await run_codemod(fixture, worker, "open('src/a.py', 'w').write('x = 2\\n')\n")
    assert again.status == "SUCCESS"


async def test_endless_output(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    result = await run_codemod(fixture, worker, "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n", seconds=20.0)
    assert result.status == "FAILED"
    assert max(map(len, fixture.artifacts.stored.values())) < 64 * 1024 * 1024


@pytest.mark.long
async def test_a_file_without_end(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    script = "with open('src/big', 'wb') as file:\n    while True:\n        file.write(b'x' * (1 << 24))\n"
    result = await run_codemod(fixture, worker, script, seconds=30.0)
    assert result.status == "FAILED"
    assert result.git.patch == ""


# --- hostile tests -----------------------------------------------------------------------------------------------------


async def run_tests(fixture: HandlerFixture, script: str, *commands: str) -> TestReport:
    """The test runner's report on a candidate in which ``x`` is 2, with ``tools/test.py`` of the repository."""
    fixture.baseline = fixture.repository.commit({"tools/test.py": script.encode()})
    _, patch = await fixture.changed({"src/a.py": b"x = 2\n"})
    task = fixture.contract(
        task_type="TEST",
        task_id=f"{RUN}.test.a1",
        assigned_agent=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        executor=None,
    )
    checks = tuple(AcceptanceTest(name=f"check {number}", cmd=cmd, must_pass=True) for number, cmd in enumerate(commands))
    inputs = Inputs(spec="test it", artifacts=(fixture.artifacts.hold("candidate.patch", patch),))
    runner = make_testrunner(RunnerSettings(home=fixture.state))
    return await runner.handle(replace(task, inputs=inputs, acceptance_tests=checks), fixture.context())


async def test_a_test_that_edits_its_subject_is_noticed_and_discarded(fixture: HandlerFixture) -> None:
    edit = "open('src/b.py', 'w').write('y = 2\\n')\nopen('src/a.py', 'a').write('evil = 1\\n')\n"
    report = await run_tests(fixture, edit, "python3 tools/test.py", "python3 src/check.py")
    (note,) = (fixture.artifacts.stored[each.uri] for each in report.artifacts if each.name == "workspace_changes")
    assert note == b"src/a.py\nsrc/b.py\n"
    tree, _ = await fixture.changed({"src/a.py": b"x = 2\n"})
    assert report.tree == tree
    mirror = await fixture.mirror()
    (entry,) = await mirror.files(tree, ("src/b.py",))
    assert await mirror.blob(entry.object_id) == b"y = 1\n"


async def test_a_test_that_reaches_for_mirror_and_role_keys(fixture: HandlerFixture) -> None:
    reach = f"""
import os, pathlib, sys
for top in ({str(fixture.state)!r}, {str(fixture.repository.path)!r}, {str(policy_directory())!r}):
    for folder, _, files in os.walk(top):
        for name in files:
            try:
                open(os.path.join(folder, name), "ab").write(b"owned")
                print("wrote", folder, name)
            except OSError:
                pass
    try:
        open(top + "/planted", "w").write("x"); print("wrote", top)
    except OSError:
        pass
"""
    report = await run_tests(fixture, reach, "python3 tools/test.py")
    (command,) = report.commands
    output = fixture.artifacts.stored.get(command.stdout, b"")
    assert b"wrote" not in output
    assert not (fixture.state / "planted").exists()
    assert not (fixture.repository.path / "planted").exists()


async def test_a_test_that_prints_success_and_dies(fixture: HandlerFixture) -> None:
    words = "import os, signal\nprint('1 passed', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    report = await run_tests(fixture, words, "python3 tools/test.py")
    assert report.status == "FAIL"
    assert report.commands[0].exit_code != 0
