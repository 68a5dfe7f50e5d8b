"""The command line as processes: what it starts is shared, waited for, aborted, and gone afterwards, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.app.stack import state
from gatewright.app.stack.processes import descendants, identity
from tests.cli.conftest import MakeRepository
from tests.command_line import invoke_in
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE, wait_until

COMMAND = (sys.executable, "-P", "-m", "gatewright.app.cli.main")
#: A change that takes as long as it is told to be tested.
CHANGE = ("run", "make a note", "--allow", "note.txt", "--exec", "touch note.txt", "--json")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Iterator[Path]:
    """A repository to stand in; a stack that is left in its home folder is brought down."""
    folder = make_repository("r")
    yield folder
    if state.read(folder / ".git" / "gatewright"):
        call(folder, "down")


def call(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GATEWRIGHT_")}
    return subprocess.run(
        (*COMMAND, *words), cwd=here, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )


def call_here(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The same, in this process: where it is not the process that is looked at."""
    return invoke_in(here, {name: value for name, value in os.environ.items() if not name.startswith("GATEWRIGHT_")}, words)


def begin(here: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen((*COMMAND, *words), cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def last_document(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text.splitlines()[-1])
    return document


def wait_for_tests(process: subprocess.Popen[str]) -> frozenset[int]:
    """Read on until the run is being tested; all that descends from the process then."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["task_id"] is not None and json.loads(line)["task_id"].endswith(".test.a1"):
            break
    assert wait_until(lambda: len(descendants(process.pid)) > 9), "fork server, server, six roles, the sandbox and the test"
    return descendants(process.pid)


@pytest.mark.long
def test_detached_stack_is_the_only_one_and_goes_down_without_a_trace(repository: Path) -> None:
    up = call(repository, "up", "--detach", "--workers", "2", "--json")
    assert up.returncode == 0, up.stderr
    processes = last_document(up.stdout)["processes"]
    assert [process["name"] for process in processes] == [
        *(
            "nats-server",
            "fork-server",
            "gatekeeper",
            "pm",
            "techlead",
            "worker-1",
            "worker-2",
            "reviewer",
            "testrunner",
            "puller",
        )
    ]
    assert call_here(repository, "up", "--detach").returncode == 3, "one stack at a time"
    down = call(repository, "down", "--json")
    assert last_document(down.stdout)["stopped"] is True
    assert [process for process in processes if identity(process["pid"])] == []


@pytest.mark.long
def test_detached_stack_shows_its_live_page_or_why_not(repository: Path) -> None:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", 8790)):
        up = call(repository, "up", "--detach", "--console", "--json")
        assert (up.returncode, "console" in last_document(up.stdout)) == (0, False)
        assert "warning: the live page did not start" in up.stderr
        assert call(repository, "down").returncode == 0
    up = call(repository, "up", "--detach", "--console", "--json")
    assert up.returncode == 0
    assert last_document(up.stdout)["console"] == "http://127.0.0.1:8790/"


@pytest.mark.long
def test_interrupted_run_is_aborted_with_a_bundle_and_leaves_no_process(repository: Path) -> None:
    process = begin(repository, *CHANGE, "--test", "sleep 60")
    family = wait_for_tests(process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    result = last_document(out)
    assert (process.returncode, result["status"], result["failure"]["code"]) == (1, "ABORTED", "aborted")
    assert call_here(repository, "verify", result["run_id"]).returncode == 0
    assert [pid for pid in family if identity(pid)] == []
    assert state.read(repository / ".git" / "gatewright") is None


@pytest.mark.long
def test_killed_run_takes_every_process_with_it(repository: Path) -> None:
    process = begin(repository, *CHANGE, "--test", "sleep 60")
    family = wait_for_tests(process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert wait_until(lambda: not any(identity(pid) for pid in family))
    assert state.read(repository / ".git" / "gatewright") is None


@pytest.mark.long
def test_reader_that_leaves_ends_the_run(repository: Path) -> None:
    process = begin(repository, *CHANGE, "--test", "sleep 60")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 1
    (run,) = last_document(call(repository, "runs", "--json").stdout)["runs"]
    assert run["status"] == "ABORTED"
    assert process.stderr is not None
    process.stderr.close()


@pytest.mark.long
def test_a_terminal_that_is_closed_ends_the_run_and_is_no_defect(repository: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    ours, theirs = os.openpty()
    words = (*COMMAND, *(word for word in CHANGE if word != "--json"), "--test", "sleep 60")
    environment = {**os.environ, "TMPDIR": str(traces), "TERM": "xterm"}
    with subprocess.Popen(words, cwd=repository, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        with killed_on_failure(process):
            seen = b""
            while b"running the tests" not in seen:
                seen += os.read(ours, 4096)
            os.close(ours)
            # What the kernel sends to those whose terminal it was.
            process.send_signal(signal.SIGHUP)
            assert process.wait(40) == 1
    (run,) = last_document(call(repository, "runs", "--json").stdout)["runs"]
    assert run["status"] == "ABORTED"
    assert list(traces.glob("*.trace")) == []


@pytest.mark.long
def test_second_run_in_the_same_home_waits_for_the_first(repository: Path) -> None:
    first, second = (begin(repository, *CHANGE, "--test", "true") for _ in range(2))
    results = [last_document(process.communicate(timeout=PATIENCE)[0]) for process in (first, second)]
    assert [result["status"] for result in results] == ["SUCCESS", "SUCCESS"]
    assert results[0]["run_id"] != results[1]["run_id"]
