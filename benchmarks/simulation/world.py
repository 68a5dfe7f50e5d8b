"""The world of a simulation: submissions come, processes take what the bus has, work for a while, and some of them die.

Everything that moves a run is the product's own: ``Orchestrator`` with its decider, dispatcher and ledger, ``StalledRuns`` for
runs that a dead gatekeeper left. Simulated are the bus, the clock, the time that work takes, and the gates, which let all pass.
"""

from __future__ import annotations

import heapq
import random
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from benchmarks.simulation.bus import Line, ProcessDied, SimulatedBus, SimulatedClock
from benchmarks.simulation.economy import EconomicLedger, SharedReadings
from benchmarks.simulation.roles import NoBundles, NoSigner, PassingGates, answer_of
from gatewright.bus import topology as t
from gatewright.bus.port import MESSAGE_ID_HEADER, Message
from gatewright.contracts import TaskContract, Transition, codec
from gatewright.contracts.vocabulary import Repository
from gatewright.run.events import Landed, RunFinished, TaskFinished
from gatewright.services.gatekeeper.decider.inputs import Input, RoleReplied, Submitted
from gatewright.services.gatekeeper.dispatch.dispatcher import UnderWay
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.entries import read_entry
from gatewright.services.gatekeeper.projections.stalled_runs import StalledRuns
from gatewright.tasks.priority_queue import search_order
from gatewright.tasks.protocol import ref_of
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_contract

#: Seconds until a process that died is there again, and for which the ledger of a run is kept after its end.
RESTART, KEPT = 5.0, 60.0
LOOK = 5.0
#: The repository from which a part of all runs comes, and whose tasks wait.
FLOODING = "/srv/flood"
KINDS = ("small", "first parts of large", "other parts of large", "flooding repository")
#: When nothing has been written to the ledger for so long, nothing will be.
DEAD_SECONDS = 3_600.0


@dataclass(frozen=True)
class Scenario:
    """``arrivals`` a second; ``task_seconds`` is a mean, ``gate_seconds`` what an input costs a gatekeeper.

    ``worker_dies`` and ``answer_doubled`` are chances for each task, ``gatekeeper_dies`` for each input. Ten runs
    in a row share a repository, and one run in ``large_every`` has ``large`` shards. One run in ``read_every`` is read back
    from its bytes by every gatekeeper that comes to it; of the others it knows what was written.
    """

    runs: int
    workers: int
    arrivals: float
    seed: int = 1
    gatekeepers: int = 8
    others: int = 2_000
    task_seconds: float = 20.0
    fixed: bool = False
    gate_seconds: float = 0.02
    worker_dies: float = 0.01
    answer_doubled: float = 0.005
    gatekeeper_dies: float = 0.001
    large: int = 24
    large_every: int = 100
    read_every: int = 1
    #: In how many streams the ledger lies.
    partitions: int = 1
    #: The part of all runs that come from one repository, which sends them as fast as they come.
    flood: float = 0.0


@dataclass
class Outcome:
    landed: int = 0
    #: Runs that were not over when a person stopped the simulation; they count as neither lost nor kept.
    open: int = 0
    lost: int = 0
    doubled: int = 0
    failed: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    messages: int = 0
    repeated: int = 0
    conflicts: int = 0
    tasks: int = 0
    #: Seconds from order to start of worker tasks: of small runs, of the first parts of large ones, which keep their priority,
    #: of their other parts, and of the repository that floods.
    waits: dict[str, array[float]] = field(default_factory=lambda: {kind: array("d") for kind in KINDS})
    #: Seconds that workers had tasks in hand until the last run was submitted, and that they were there.
    worked: float = 0.0
    offered: float = 0.0
    #: Inputs of runs that had been audited and forgotten.
    too_late: int = 0
    #: How often a run was read back from its bytes, and found to be what was written.
    read_back: int = 0
    first_task: float = -1.0
    last_answer: float = 0.0


class _Silent:
    """In the place of a log."""

    def bind(self, **_: object) -> _Silent:
        return self

    def info(self, *_: object, **__: object) -> None: ...

    warning = error = info


class _Gatekeeper:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.line = Line(world.bus)
        self.orchestrator = Orchestrator(
            cast("Any", self.line),
            EconomicLedger(self.line, name, world.readings),
            cast("Any", PassingGates()),
            cast("Any", NoBundles()),
            cast("Any", NoSigner()),
            world.clock,
            cast("Any", _Silent()),
            world.metrics,
        )


class World:
    """Plays one scenario; the same seed gives the same world."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.chance = random.Random(scenario.seed)  # noqa: S311 - a simulation, and repeatable
        self.clock = SimulatedClock()
        self.metrics = Metrics("gatekeeper")
        self.outcome = Outcome()
        self.bus = SimulatedBus(self.clock, self._arrived, scenario.partitions)
        self.free = dict.fromkeys(t.TASK_ROLES, scenario.others) | {"worker": scenario.workers}
        self.readings = SharedReadings(self._is_read)
        self.names = 0
        #: Tasks that the processes of each role have taken.
        self._taken: Counter[str] = Counter()
        self._last_arrival = (scenario.runs - 1) / scenario.arrivals
        self.idle = [self._gatekeeper() for _ in range(scenario.gatekeepers)]
        self.stalled = StalledRuns(lambda: 1 + self.chance.random())
        self.orders: dict[str, tuple[TaskContract, int]] = {}
        self.answers: dict[int, Input] = {}
        self.open = scenario.runs
        self.stopped = False
        self.progress: Callable[[Outcome], None] = lambda _outcome: None
        self._events: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._number = 0
        self._wanted: list[t.Consumer] = []
        self._entries: dict[str, int] = {}
        #: The gatekeepers that have moved a run which is not over.
        self._knowing: dict[str, dict[_Gatekeeper, None]] = {}
        self._moved = 0.0

    async def play(self) -> Outcome:
        """Until every run has been looked at after its end, or nothing happens any more."""
        await self._submit(0)
        self._later(LOOK, self._look)
        while self._events and self.open and not self.stopped and self.clock.seconds - self._moved < DEAD_SECONDS:
            self.clock.seconds, _, happens = heapq.heappop(self._events)
            await happens()
            while self._wanted:
                await self._deliver(self._wanted.pop())
        self.outcome.seconds = self.clock.seconds
        self.outcome.offered = self.scenario.workers * self._last_arrival
        self.outcome.open, self.outcome.lost = (self.open, 0) if self.stopped else (0, self.open)
        self.outcome.messages, self.outcome.repeated = self.bus.published, self.bus.repeated
        self.outcome.conflicts, self.outcome.read_back = self.bus.conflicts, self.readings.compared
        return self.outcome

    def _is_read(self, run_id: str) -> bool:
        return int(run_id.removeprefix("run-"), 16) % self.scenario.read_every == 0

    def _later(self, seconds: float, happens: Callable[[], Awaitable[None]]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.clock.seconds + seconds, self._number, happens))

    def _arrived(self, consumer: t.Consumer) -> None:
        self._wanted.append(consumer)

    async def _submit(self, number: int) -> None:
        run_id = f"run-{number:020x}"
        floods = int((number + 1) * self.scenario.flood) > int(number * self.scenario.flood)
        shards = self.scenario.large if number % self.scenario.large_every == 0 and not floods else 1
        repository = FLOODING if floods else f"/srv/project-{number // 10}"
        contract = make_contract(run_id, repository=Repository(url=repository))
        self.orders[run_id] = (contract, shards)
        item = Submitted(run_id, f"{number + 1:032x}", contract, "0" * 64, f"submit:{run_id}")
        self._store(t.CONTRACT_SUBJECT, item, {"run_id": run_id}, item.message_id)
        if number + 1 < self.scenario.runs:
            self._later((number + 1) / self.scenario.arrivals - self.clock.seconds, lambda: self._submit(number + 1))

    def _store(self, subject: str, item: Input, ids: dict[str, str], message_id: str) -> None:
        self._number += 1
        self.answers[self._number] = item
        data = msgspec.json.encode(ids | {"answer": self._number})
        if self.bus.store(subject, data, {MESSAGE_ID_HEADER: message_id}).duplicate:
            del self.answers[self._number]

    async def _deliver(self, consumer: t.Consumer) -> None:
        """What waits there goes to a process that is free."""
        if consumer.owner == "gatekeeper":
            while self.idle and (held := self.bus.queues[consumer.subject].take()):
                await self._judge(self.idle.pop(), consumer, *held)
            return
        queues = t.task_consumers(consumer.owner)
        while self.free[consumer.owner]:
            looked = (queues[number] for number in search_order(self._taken[consumer.owner], len(queues)))
            found = ((queue, self.bus.queues[queue.subject].take()) for queue in looked)
            queue, held = next(((queue, held) for queue, held in found if held is not None), (consumer, None))
            if held is None:
                return
            self._taken[consumer.owner] += 1
            self.free[consumer.owner] -= 1
            self._work(queue, *held)

    def _work(self, queue: t.Consumer, message: Message, delivery: int) -> None:
        """A process of a role has a task in hand: it answers, answers without an acknowledgement, or dies."""
        found, role = self.scenario, queue.owner
        mean = found.task_seconds if role == "worker" else 1.0
        took = mean if found.fixed else self.chance.expovariate(1 / mean)
        ref = ref_of(message)
        if ref is None or ref.run_id not in self.orders:
            self.bus.queues[queue.subject].settle(message.sequence)
            self.free[role] += 1
            return
        if role == "worker" and delivery == 1:
            kind = self._kind(*self.orders[ref.run_id], first=queue == t.task_consumer("worker"))
            self.outcome.waits[kind].append(self.clock.seconds - (message.stored_at - self._begin))
            self.outcome.first_task = self.clock.seconds if self.outcome.first_task < 0 else self.outcome.first_task
        died = self.chance.random() < found.worker_dies
        doubled = self.chance.random() < found.answer_doubled
        took *= self.chance.random() if died else 1.0
        if role == "worker":
            self.outcome.worked += max(0.0, min(took, self._last_arrival - self.clock.seconds))

        async def ends() -> None:
            if not died:
                contract, shards = self.orders.get(ref.run_id, (None, 0))
                if contract is not None:
                    document = answer_of(role, contract, ref.run_id, ref.task_id, shards)
                    answer = RoleReplied(cast("Any", role), document, f"{ref.run_id}:{ref.task_id}")
                    ids = {"run_id": ref.run_id, "task_id": ref.task_id}
                    self._store(t.result_subject(role), answer, ids, answer.message_id)
            if died or doubled:
                self.outcome.deaths["with a task" if died else "between answer and acknowledgement"] += 1
                self._later(queue.ack_wait, lambda: self._again(queue, message.sequence, delivery))
                self._later(RESTART, lambda: self._back(queue))
                return
            self.outcome.tasks += 1
            self.bus.queues[queue.subject].settle(message.sequence)
            await self._back(queue)

        self._later(took, ends)

    @staticmethod
    def _kind(contract: TaskContract, shards: int, *, first: bool) -> str:
        """Whose task it is; ``first``: it was given out with the priority of its run."""
        small, first_parts, others, flooding = KINDS
        if contract.repository is not None and contract.repository.url == FLOODING:
            return flooding
        return small if shards == 1 else first_parts if first else others

    @property
    def _begin(self) -> float:
        return self.clock.now().timestamp() - self.clock.seconds

    async def _back(self, queue: t.Consumer) -> None:
        self.free[queue.owner] += 1
        self._arrived(queue)

    async def _again(self, queue: t.Consumer, sequence: int, delivery: int) -> None:
        if self.bus.queues[queue.subject].again(sequence, delivery):
            self._arrived(queue)

    async def _judge(self, gatekeeper: _Gatekeeper, queue: t.Consumer, message: Message, delivery: int) -> None:
        """A gatekeeper has an input in hand: it may die at any call of the bus, or before it acknowledges it."""
        item = self.answers[msgspec.json.decode(message.data)["answer"]]
        run_id = item.run_id if isinstance(item, Submitted) else msgspec.json.decode(message.data)["run_id"]
        dies = self.chance.random() < self.scenario.gatekeeper_dies
        if dies:
            gatekeeper.line.arm(self.chance.randrange(4), after=self.chance.random() < 0.5)
        try:
            if run_id not in self.orders:
                self.outcome.too_late += 1
            else:
                self._knowing.setdefault(run_id, {})[gatekeeper] = None
                await gatekeeper.orchestrator.advance(run_id, item)
        except ProcessDied:
            dies = True
        self._saw(run_id)

        async def ends() -> None:
            if dies:
                self.outcome.deaths["gatekeeper"] += 1
                self._later(queue.ack_wait, lambda: self._again(queue, message.sequence, delivery))
                self._later(RESTART, self._gatekeeper_is_back)
                return
            self.bus.queues[queue.subject].settle(message.sequence)
            self.answers.pop(msgspec.json.decode(message.data)["answer"], None)
            if isinstance(item, RoleReplied) and item.role == "worker":
                self.outcome.last_answer = self.clock.seconds
            self._free(gatekeeper)

        self._later(self.scenario.gate_seconds, ends)

    def _gatekeeper(self) -> _Gatekeeper:
        self.names += 1
        return _Gatekeeper(self, f"gatekeeper-{self.names}")

    async def _gatekeeper_is_back(self) -> None:
        self._free(self._gatekeeper())

    def _free(self, gatekeeper: _Gatekeeper) -> None:
        self.idle.append(gatekeeper)
        self._wanted += [t.RESULT_CONSUMER, t.INTAKE_CONSUMER]

    async def _look(self) -> None:
        """What gatekeepers do every few seconds: finish what another one left."""
        due = self.stalled.due(self.clock.seconds)
        if self.idle and due:
            gatekeeper = self.idle[0]
            under_way = UnderWay(cast("Any", gatekeeper.line))
            for run_id in due:
                self._knowing.setdefault(run_id, {})[gatekeeper] = None
                await gatekeeper.orchestrator.take_up(run_id, under_way)
                self._saw(run_id)
                self.stalled.looked(run_id, self.clock.seconds)
        self._later(LOOK, self._look)

    def _saw(self, run_id: str) -> None:
        """Pass every new ledger entry of the run to the readers of the ledger."""
        entries = self.bus.entries(t.run_subject(run_id))
        sealed = False
        for message in entries[self._entries.get(run_id, 0) :]:
            entry = read_entry(message)
            if entry is not None and self.stalled.saw(entry, self.clock.seconds):
                sealed = True
                self._later(KEPT, lambda: self._audit(run_id))
            self._moved = self.clock.seconds
        self._entries[run_id] = len(entries)
        if sealed:
            self._over(run_id)
            self.bus.shelve(t.run_subject(run_id))

    def _over(self, run_id: str) -> None:
        """Every gatekeeper hears of a seal, and remembers nothing more of the run."""
        self.readings.positions.pop(run_id, None)
        for gatekeeper in self._knowing.pop(run_id, ()):
            gatekeeper.orchestrator.left_behind(run_id)

    async def _audit(self, run_id: str) -> None:
        """How a run ended, by its ledger alone; then it is forgotten, here as in the product."""
        if run_id not in self.orders:
            return
        entries = self.bus.drop(t.run_subject(run_id))
        self._over(run_id)
        events = [event for message in entries for event in codec.decode(message.data, Transition).events]
        finished = Counter(event.task_id for event in events if event.event_type == TaskFinished.event_type)
        kinds = Counter(event.event_type for event in events)
        shards = self.orders.pop(run_id)[1]
        once = kinds[RunFinished.event_type] == 1 and max(finished.values(), default=0) <= 1 and kinds[Landed.event_type] <= 1
        self.outcome.doubled += not once
        whole = kinds[Landed.event_type] == 1 and len(finished) == shards
        self.outcome.landed += whole
        self.outcome.failed += not whole
        self._entries.pop(run_id)
        self.open -= 1
        self.progress(self.outcome)
