"""What a role implements, and what it is given: the port between the runner and a role's own knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from gatewright.artifacts import ArtifactPort
from gatewright.budgets import Spend
from gatewright.bus.port import Bus
from gatewright.clock import Clock
from gatewright.contracts.activity import MOST_LEFT
from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.tasks.activity import ReportActivity, ignore_activity
from gatewright.tasks.budget_meter import BudgetMeter
from gatewright.tasks.inputs import reference
from gatewright.tasks.questions import AskPublisher, refuse_question
from gatewright.telemetry.logs import Logger

TaskKind_contra = TypeVar("TaskKind_contra", bound=Document, contravariant=True)


class BusArtifacts:
    """The artifacts of a bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def put(self, data: bytes) -> str:
        return await self._bus.put_artifact(data)

    async def get(self, uri: str) -> bytes:
        return await self._bus.get_artifact(uri)


def _run_unwatched() -> None:
    return None


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Services for a handler during one task. ``attempts``: number of deliveries of the task, including this one.

    ``progress()`` records a finished step: the task's time limit starts again. A handler of several commands, each of which may
    take the contract's ``timeout_sec``, calls it between them.

    ``spend(tokens=..., cost_usd=..., iterations=...)`` reports the usage since the last call, as soon as it is known.
    ``meter.within`` ends work that exceeds the task's budget. Live reports are for observers, and no evidence; ``ask`` sends a
    question to the publisher of the run. ``left`` is what interrupted work leaves behind.
    """

    artifacts: ArtifactPort
    clock: Clock
    log: Logger
    attempts: int
    progress: Callable[[], None] = _run_unwatched
    meter: BudgetMeter = field(default_factory=BudgetMeter)
    report_activity: ReportActivity = ignore_activity
    ask: AskPublisher = refuse_question
    left: list[Artifact] = field(default_factory=list)

    @property
    def spend(self) -> Spend:
        """Raises BudgetError when the task has used more than it was given: stop at once."""
        return self.meter.spend

    async def leave(self, parts: Iterable[tuple[str, bytes]]) -> None:
        """Store what work that ends without an answer leaves behind; its last report names it. Raises BusError."""
        for name, data in parts:
            if data and len(self.left) < MOST_LEFT:
                await self.artifacts.put(data)
                self.left.append(reference(name, data))


class TaskHandler(Protocol[TaskKind_contra]):
    """A role: a task in, a document out. It knows no bus and keeps nothing between tasks that it could not lose."""

    async def handle(self, task: TaskKind_contra, context: TaskContext) -> Document:
        """Do the task and return the role's answer (or an ``Error`` document).

        The class of an error decides: UnavailableError is tried again later; any other GatewrightError ends the task;
        everything else is a fault of the program and ends the process. It may be cancelled at any await, and it may be
        called again for a task that was done already.
        """


@runtime_checkable
class Probing(Protocol):
    """A handler that can check whether this host supports its work."""

    async def probe(self) -> Mapping[str, str]:
        """Return how it will work here, for the log. Raises GatewrightError with the cause when it cannot."""
