"""The supervisor's side of the fork server: asks it for processes, and knows which of them live.

When the fork server dies, so does all that it forked; the supervisor then starts processes the plain way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gatewright.app.stack.fork_orders import SECRETS, Report, StartOrder
from gatewright.app.stack.launch import ProcessPlan, interpreter, prepare_log
from gatewright.app.stack.processes import dies_with_parent
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.foreign_documents import read_json

#: The packages that are run as roles. The first ones are needed first: with few cores they should not wait for the last ones.
SERVICES = "gatewright.services"
START_ORDER = ("gatekeeper", "pm", "techlead", "worker", "reviewer", "testrunner")
#: Those that look for secrets; the catalogue is loaded once for all of them.
_SCANNING_ROLES = frozenset({"gatekeeper", "worker", "testrunner"})

#: Reported for a process whose fork server was killed: the kernel has killed it too.
_KILLED = -9


class Forked:
    """A process that the fork server has forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, returncode: int) -> None:
        self.returncode = returncode
        self._ended.set()

    async def wait(self) -> int:
        """Wait until it has ended; its return code."""
        await self._ended.wait()
        return _KILLED if self.returncode is None else self.returncode


class ForkServer:
    """A running fork server. Make it with ``open``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._expected: dict[str, asyncio.Future[Forked]] = {}
        self._living: dict[int, Forked] = {}
        self._listening = asyncio.create_task(self._listen(), name="fork-server")

    @classmethod
    async def open(
        cls, modules: Sequence[str], environment: Mapping[str, str], log: Path, *, secrets: Path | None = None
    ) -> ForkServer:
        """Start one that preloads the programs of these packages. Raises ConfigurationError when it cannot be started.

        ``secrets``: load the catalogue of the scanner for secrets too; where it may be kept, if not in the installation.
        """
        prepare_log(log)
        first = () if secrets is None else (SECRETS, str(secrets))
        try:
            with log.open("ab") as errors:
                process = await asyncio.create_subprocess_exec(
                    *interpreter("gatewright.app.stack.fork_server_process", *first, *modules),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    env=dict(environment),
                    start_new_session=True,
                    preexec_fn=dies_with_parent(),
                )
        except OSError as error:
            raise ConfigurationError(f"the fork server cannot be started: {error}") from error
        return cls(process)

    @property
    def alive(self) -> bool:
        return not self._listening.done()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, plan: ProcessPlan) -> Forked:
        """A process that carries out ``plan``. Raises UnavailableError when the fork server is dead or dies over it."""
        if not self.alive or self._process.stdin is None:
            raise UnavailableError("the fork server is dead")
        prepare_log(plan.log)
        born: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._expected[plan.name] = born
        order = StartOrder(plan.name, plan.module, dict(plan.environment), str(plan.directory), str(plan.log))
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise UnavailableError(f"the fork server is dead: {error}") from error
        return await born

    async def kill(self) -> None:
        """Kill it immediately, even during imports. For one that has forked nothing."""
        if self._process.returncode is None:
            self._process.kill()
        await self.close()

    async def close(self) -> None:
        """End the fork server and all live processes that it forked. Safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        while line := await self._process.stdout.readline():
            report = read_json(line, Report)
            if report.returncode is not None:
                self._living.pop(report.pid).end(report.returncode)
            else:
                self._living[report.pid] = forked = Forked(report.pid)
                born = self._expected.pop(report.name)
                if not born.done():
                    born.set_result(forked)
        for forked in self._living.values():
            forked.end(_KILLED)
        for born in self._expected.values():
            if not born.done():
                born.set_exception(UnavailableError("the fork server died"))


class Ahead:
    """A fork server that was started before it is known whether it is needed; ``take`` it once."""

    def __init__(self, fork_server: ForkServer | None = None) -> None:
        self._fork_server = fork_server

    def take(self) -> ForkServer | None:
        """Return the fork server if it is alive, and transfer its ownership to the caller."""
        taken, self._fork_server = self._fork_server, None
        return taken if taken is not None and taken.alive else None

    async def close(self) -> None:
        """End it if it was not taken. Safe to call twice."""
        if (left := self.take()) is not None:
            await left.kill()


async def open_fork_server(
    home: Path, environment: Mapping[str, str], roles: Sequence[str] = START_ORDER, package: str = SERVICES
) -> ForkServer:
    """Start the one for these roles of the stack of ``home``. Raises ConfigurationError when it cannot be started."""
    secrets = home / "secret-rules" if _SCANNING_ROLES.intersection(roles) else None
    modules = [f"{package}.{role}" for role in roles]
    return await ForkServer.open(modules, environment, home / "logs" / "fork-server.log", secrets=secrets)
