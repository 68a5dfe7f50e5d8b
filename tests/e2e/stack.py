"""A stack as a user starts it: `gatewright up`, driven by the command line and the SDK."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatewright.app.stack import state
from gatewright.app.stack.state import Member, StackState
from gatewright.bus.topology import Role, task_consumers
from gatewright.client.sync import SyncClient
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository, Sharding
from tests.command_line import invoke_in
from tests.ecosystems.environments import plain_environment
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE
from tests.warm_interpreter import stand_in, warm_interpreter

#: What the commands of test repositories see as `python`: each task looks twice at all that lies in it.
PREFIX = plain_environment()
SECONDS = PATIENCE


@dataclass(frozen=True)
class Stack:
    """A running stack. ``home`` is its state folder."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """What is around a command line that uses the stack."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "GATEWRIGHT_HOME": str(self.home)}

    def process(
        self, *words: str, cwd: Path | None = None, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`gatewright ...` to its end, in a process of its own; ``extra``: more variables."""
        argv = [sys.executable, "-m", "gatewright.app.cli.main", *words]
        place, variables = cwd or self.home.parent, {**self.environment, **(extra or {})}
        return subprocess.run(argv, cwd=place, env=variables, check=False, capture_output=True, text=True, timeout=2 * SECONDS)

    def command(
        self, *words: str, cwd: Path | None = None, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`gatewright ...` to its end, in this process; ``extra``: more variables. Not for coroutines."""
        with warm_interpreter():
            return invoke_in(cwd or self.home.parent, {**self.environment, **(extra or {})}, words)

    def run(self, repository: Path, *words: str, process: bool = False) -> tuple[int, dict[str, Any]]:
        """`gatewright run ... --json` in a repository: exit code and last line."""
        command = self.process if process else self.command
        finished = command("run", "a change", "--env", str(PREFIX), "--json", *words, cwd=repository)
        assert finished.stdout, finished.stderr
        result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return finished.returncode, result

    @property
    def state(self) -> StackState:
        return msgspec.json.decode((self.home / "stack.json").read_bytes(), type=StackState)

    def members(self, role: str) -> list[Member]:
        return [member for member in self.state.members if member.name.partition("-")[0] == role]

    @contextlib.contextmanager
    def client(self) -> Iterator[SyncClient]:
        with SyncClient(self.state.address(), requested_by="tests") as client:
            yield client

    def connections(self) -> list[str]:
        """The names of the clients that the NATS server sees."""
        return [connection.get("name", "") for connection in self._monitored("connz")["connections"]]

    def in_hand(self, role: Role) -> int:
        """Tasks that the server has handed out to a role and that are not acknowledged."""
        accounts = self._monitored("jsz?accounts=true&consumers=true")["account_details"]
        consumers = [
            consumer
            for account in accounts
            for stream in account.get("stream_detail", ())
            for consumer in stream.get("consumer_detail") or ()
        ]
        mine = {queue.durable for queue in task_consumers(role)}
        return sum(consumer["num_ack_pending"] for consumer in consumers if consumer["name"] in mine)

    def _monitored(self, page: str) -> dict[str, Any]:
        (ports,) = (self.home / "nats").rglob("*.ports")
        monitoring = json.loads(ports.read_text())["monitoring"][0]
        with urllib.request.urlopen(f"{monitoring}/{page}") as answer:  # noqa: S310 - our own server, on loopback
            found: dict[str, Any] = json.load(answer)
        return found

    def kill(self, role: str) -> int:
        """`kill -9` every process of a role; how many there were."""
        victims = self.members(role)
        for member in victims:
            os.kill(member.pid, signal.SIGKILL)
        return len(victims)


@contextlib.contextmanager
def running_stack(home: Path, *, workers: int, stack: Stack | None = None) -> Iterator[Stack]:
    """A stack for the time of a block: `gatewright up` in a process of its own, and `gatewright down`."""
    stack = stack or Stack(home)
    log = stack.home / "logs" / "stack.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = ("up", "--workers", str(workers), "--env", str(PREFIX))
    argv = (str(stand_in()), "-P", "-m", "gatewright.app.cli.main", *words)
    surroundings = {"cwd": stack.home.parent, "env": stack.environment, "start_new_session": True}
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **surroundings)  # type: ignore[call-overload]
    with killed_on_failure(process):
        wait_until(lambda: process.poll() is not None or is_ready(stack), SECONDS)
        assert process.poll() is None, log.read_text()
    try:
        yield stack
    finally:
        stopped = stack.command("down")
        with killed_on_failure(process):
            process.wait(SECONDS)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


def is_ready(stack: Stack) -> bool:
    found = state.read(stack.home)
    return found is not None and found.ready


def slow_request(repository: Path, seconds: float, *, parts: int = 1) -> RunRequest:
    """A run whose worker sleeps and then edits every file of ``src``, and whose acceptance test sleeps as well."""
    return RunRequest(
        request="slow and steady",
        repository=Repository(url=str(repository)),
        requested_by="tests",
        ordered_by=("dispatcher@example.org",),
        allowed_paths=("src",),
        acceptance_tests=(AcceptanceTest(name="slow", cmd=f"python tools/check.py {seconds}", must_pass=True),),
        executor=Executor(kind="command", commands=(f"python tools/edit.py {seconds} {{paths}}",)),
        sharding=Sharding(count=parts),
        environment=Environment(prefix=str(PREFIX)),
    )


def wait_until(what: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Poll until ``what`` is true; an AssertionError when it never is."""
    give_up = time.monotonic() + seconds
    while not what():
        if time.monotonic() > give_up:
            pytest.fail("it did not happen")
        time.sleep(0.05)
