"""A supervised process: started, restarted when it dies, and stopped with all its descendants.

It writes to a log file of its own. This module does not know what the process does, nor when the stack as a whole has
failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gatewright.app.stack.launch import ProcessPlan, Running
from gatewright.app.stack.processes import Identity, kill, kill_all, snapshot
from gatewright.app.stack.state import Member
from gatewright.clock import Clock
from gatewright.errors import UnavailableError


# The restart policy of role processes: when to restart, and when to give up. Pure: times are passed in.
@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """``patience`` quick deaths in a row end the stack; a death is quick within ``settled`` seconds of the start.

    The first restart is immediate (a killed process must not delay its task); then the pause doubles from ``pause`` up to
    ``longest`` seconds.
    """

    patience: int = 5
    settled: float = 5.0
    pause: float = 0.1
    longest: float = 5.0


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """The restart history of one process."""

    restarts: int = 0
    quick_deaths: int = 0

    def died(self, policy: RestartPolicy, lived: float) -> RestartRecord:
        """The record after a death at the age of ``lived`` seconds."""
        quick = self.quick_deaths + 1 if lived < policy.settled else 0
        return RestartRecord(self.restarts + 1, quick)

    def hopeless(self, policy: RestartPolicy) -> bool:
        return self.quick_deaths >= policy.patience

    def delay(self, policy: RestartPolicy) -> float:
        """Seconds to wait before the next start."""
        if self.quick_deaths <= 1:
            return 0.0
        return min(policy.longest, policy.pause * 2.0 ** (self.quick_deaths - 2))


#: Lines of a log that are shown if its process cannot be kept alive.
LOG_TAIL_LINES = 12
#: Seconds between two checks for disk space.
_LOOK_AGAIN = 1.0

Launch = Callable[[ProcessPlan], Awaitable[Running]]


class SupervisedProcess:
    """Keeps the process of one plan running, started by ``launch``; ``on_change`` is called after every start.

    ``check_space`` raises UnavailableError while the disk is full: a process that dies then is restarted later, and has not
    failed.
    """

    def __init__(
        self,
        plan: ProcessPlan,
        *,
        launch: Launch,
        policy: RestartPolicy,
        clock: Clock,
        on_change: Callable[[], None],
        check_space: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._launch = launch
        self._policy = policy
        self._clock = clock
        self._on_change = on_change
        self._check_space = check_space
        self._record = RestartRecord()
        self._process: Running | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False
        self._begun = asyncio.Event()

    @property
    def member(self) -> Member:
        """Name, process number (0 between two lives) and restarts."""
        alive = self._process is not None and self._process.returncode is None
        return Member(self._plan.name, self._process.pid if alive and self._process else 0, self._record.restarts)

    async def start(self) -> None:
        """Start it and keep it. Raises ConfigurationError when that cannot be done."""
        self._process = await self._launch(self._plan)
        self._keeper = asyncio.create_task(self._keep_running(self._process), name=f"keep {self._plan.name}")
        self._begun.set()

    async def given_up(self) -> None:
        """Return when the process was stopped; raises UnavailableError when it dies again and again."""
        await self._begun.wait()
        if self._keeper is not None:
            await asyncio.shield(self._keeper)

    async def stop(
        self,
        grace: float,
        *,
        number: signal.Signals = signal.SIGTERM,
        seen: Mapping[int, dict[int, Identity]] = MappingProxyType({}),
    ) -> None:
        """Send the signal, wait ``grace`` seconds, then kill it with all its descendants.

        ``seen``: descendants by process, from one scan for many.
        """
        self._stopping = True
        self._begun.set()
        process = self._process
        if process is not None and process.returncode is None:
            below = dict(seen[process.pid]) if process.pid in seen else snapshot(process.pid)
            kill(process.pid, number)
            try:
                await asyncio.wait_for(process.wait(), grace)
            except TimeoutError:
                below |= snapshot(process.pid)
                kill(process.pid)
                await process.wait()
            kill_all(below)
        await self._dismiss_keeper()

    async def _dismiss_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError, UnavailableError):
                await self._keeper

    async def _keep_running(self, process: Running) -> None:
        while True:
            born = self._clock.monotonic()
            self._on_change()
            await process.wait()
            if self._stopping:
                return
            if await self._wait_for_space():
                born = -math.inf
            self._record = self._record.died(self._policy, self._clock.monotonic() - born)
            if self._record.hopeless(self._policy):
                raise UnavailableError(self._obituary(process.returncode), code="role_keeps_dying")
            await asyncio.sleep(self._record.delay(self._policy))
            self._process = process = await self._launch(self._plan)

    async def _wait_for_space(self) -> bool:
        """Wait for disk space; return whether there was a wait."""
        waited = False
        while True:
            try:
                self._check_space()
            except UnavailableError:
                waited = True
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                return waited

    def _obituary(self, code: int | None) -> str:
        ending = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        lines = self._plan.log.read_bytes()[-20_000:].decode("utf-8", "replace").splitlines()
        died = f"{self._plan.name} died {self._record.quick_deaths} times at once ({ending})"
        if cause := _recorded_cause(lines):
            return f"{died}: {cause}; its log: {self._plan.log}"
        words = "\n".join(["", *lines[-LOG_TAIL_LINES:]]) if lines else " (its log is empty)"
        return f"{died}; {self._plan.log} ends:{words}"


def _recorded_cause(lines: list[str]) -> str:
    """The cause that a role recorded in the last line of its log before it ended; empty where there is none."""
    try:
        last = json.loads(lines[-1]) if lines else None
    except ValueError:
        return ""
    if not isinstance(last, dict) or last.get("event") != "service_failed":
        return ""
    return f"{last.get('cause', '')} ({last.get('code', '')})"
