"""Imperative shell around the decider: gets an input judged, decided and stored, and executes the result.

Every step may be repeated. After a crash between two steps, the redelivery of the input completes them, or ``take_up`` in a
gatekeeper that finds the run stalled. The ledger's sequence decides between two gatekeepers that act at the same time.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from gatewright.bus.port import Bus
from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.clock import Clock
from gatewright.contracts import ProgressPacket, Transition, codec
from gatewright.contracts.progress import MemoryEntry
from gatewright.errors import BusError, ConflictError, GatewrightError, MalformedError, StoreError, UnavailableError
from gatewright.evidence.projection.screening import ScreenedArtifacts
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import UNWRITABLE, BundleWriter, Sealed
from gatewright.host_errors import host_errors
from gatewright.ledger.store import NOWHERE, Ledger, Position
from gatewright.order_artifacts.canonical_memory import entry_of
from gatewright.rules.summons import open_summonses
from gatewright.run import events as e
from gatewright.run.spending import awaited_accounts
from gatewright.run.state import Run
from gatewright.run.states import WAITING
from gatewright.secrets.documents import redact_words
from gatewright.services.gatekeeper.budget_accounts import BudgetAccounts
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.gate_checks import next_step, required_checks
from gatewright.services.gatekeeper.decider.inputs import (
    AbortReceived,
    Continue,
    Ignored,
    Input,
    Outcome,
    Recorded,
    Refused,
    RoleReplied,
    SealReported,
    Submitted,
)
from gatewright.services.gatekeeper.dispatch.dispatcher import Dispatcher, UnderWay
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.services.gatekeeper.run_metrics import measure
from gatewright.tasks.protocol import cancel_notice
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics
from gatewright.tracing.spans import NoSpans, SpanSink, finish
from gatewright.view.spans import run_spans

#: Bundles built and stored in the background at the same time.
_STORED_TOGETHER = 4
#: Seconds that the seal of an ended run waits for usage reports of interrupted work.
ACCOUNT_PATIENCE = 10.0
#: Seconds between two questions to the puller, which answers within seconds itself.
_PULL_PAUSE = 0.5
#: Attempts to decide an input again after another gatekeeper appended first.
CONFLICT_TRIES = 20


@dataclass(frozen=True)
class Orchestrator:
    """Moves runs. One per process; any number of processes."""

    bus: Bus
    ledger: Ledger
    gates: GateEngine
    bundles: BundleWriter
    signer: Signer
    clock: Clock
    log: Logger
    metrics: Metrics
    turns: weakref.WeakValueDictionary[str, asyncio.Lock] = field(default_factory=weakref.WeakValueDictionary)
    #: Ended runs whose bundle could not be written: run id -> cause.
    owed: dict[str, str] = field(default_factory=dict)
    #: Steps that no message waits for.
    background: set[asyncio.Task[None]] = field(default_factory=set)
    #: Ended runs whose bundle is being uploaded to the bundle store in the background.
    storing: set[str] = field(default_factory=set)
    storing_places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STORED_TOGETHER))
    #: Open runs whose events could not be written; they stay blocked until the disk accepts them.
    behind: dict[str, str] = field(default_factory=dict)
    #: Ended runs whose seal waits for usage reports of interrupted work.
    sealing_later: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    #: Runs whose order the puller carries out.
    pulling: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    #: Raises UnavailableError when this host has no disk space for work.
    room: Callable[[], None] = lambda: None
    #: Accounts of the organisation's budgets; None without budgets.
    accounts: BudgetAccounts | None = None
    #: Destination of the trace of a sealed run.
    spans: SpanSink = field(default_factory=NoSpans)

    async def accept(self, item: Submitted) -> bool:
        """Turn a submission into a run.

        Returns:
            True when the run is new: it is in the ledger and its first task is on the bus.
        """
        async with self._turn(item.run_id):
            # Nearly every submission is new: assume so until the append to the ledger fails.
            known = self.ledger.known(item.run_id) or NOWHERE
            if known.run is not None:
                return False
            return isinstance(await self._step(item.run_id, item, known), Recorded)

    async def advance(self, run_id: str, item: Input) -> Outcome:
        """Apply ``item``, then take every next step of the gatekeeper itself.

        A run that waits for locks waits in the ledger and in the lock table; the gatekeeper that releases the locks continues
        it.

        Returns:
            The outcome of ``item`` alone.

        Raises:
            BusError: the bus is unreachable; deliver the input again.
            MalformedError: the run does not exist (``run_unknown``).
        """
        async with self._turn(run_id):
            outcome = await self._step(run_id, item)
            await self._continue(run_id, item.message_id)
            return outcome

    async def reload(self, run_id: str) -> Run:
        """Load the run from the ledger, since another gatekeeper may have moved it.

        Raises:
            MalformedError: the run does not exist (``run_unknown``).
        """
        self.ledger.forget(run_id)
        run = (await self.ledger.get(run_id)).run
        if run is None:
            raise MalformedError(f"there is no run {run_id[:200]}", code="run_unknown")
        return run

    async def take_up(self, run_id: str, under_way: UnderWay) -> bool:
        """Finish what this process or another one left incomplete.

        Returns:
            True when the run needs nothing more, ever.

        Raises:
            UnavailableError: it cannot be done now.
            MalformedError: the run's history cannot be read.
        """
        turn = self._turn(run_id)
        if turn.locked():
            return False  # a step of this run is in progress here
        if self.gates.queue is not None and self.gates.queue.waits(run_id):
            return False  # its merge queue wakes it
        async with turn:
            self.ledger.forget(run_id)
            position = await self.ledger.load(run_id)
            run = position.run
            if run is not None and run.sealed is None:
                self._log(run).info("run_taken_up", state=run.state)
                if run.ended:
                    await self._stop_work(run)
                else:
                    if run.state in WAITING and run.locks is None:
                        await self._release(run)
                    await self.dispatcher.give_missing(run, position.transitions, self.clock.now(), under_way)
                await self._continue(run_id, f"resume:{run.transitions}")
                run = (await self.ledger.get(run_id)).run
            if run is not None and run.sealed is None:
                return False
            self.left_behind(run_id)
            return True

    async def current(self, run_id: str) -> Run | None:
        """Load a run from the ledger. Ended runs are not cached, so that replayed keys cannot fill the memory."""
        run = (await self.ledger.get(run_id)).run
        if run is not None and run.sealed is not None:
            self.left_behind(run_id)
        return run

    def left_behind(self, run_id: str) -> None:
        """Drop all memory of a run that some gatekeeper has sealed."""
        self.ledger.forget(run_id)
        self.dispatcher.forget(run_id)

    async def moved_elsewhere(self, run_id: str) -> None:
        """Dispatch tasks that got a slot because another gatekeeper moved or sealed a run.

        Raises:
            BusError: the bus did not accept a task.
        """
        shares = self.dispatcher.shares
        if not shares.policy.bounded:
            return
        if shares.knows(run_id):
            run = (await self.ledger.load(run_id)).run
            if run is not None:
                await self.dispatcher.give(run, ())
        elif shares.waiting:
            await self.dispatcher.give_waiting()

    async def settle(self, run_id: str) -> None:
        """Delete the local copy of a bundle that is stored elsewhere, once the ledger confirms the seal.

        Raises:
            BusError: the ledger cannot be read.
        """
        if run_id not in self.bundles.copies():
            return
        run = (await self.ledger.load(run_id)).run
        if run is not None and run.sealed is not None:
            await self.bundles.settled(run_id, run.sealed.location)
            self.left_behind(run_id)

    @property
    def policies(self) -> Policies:
        """The operator's policies."""
        return self.gates.policies

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.bus, self.policies.shares, self.policies.beats)

    def _log(self, run: Run) -> Logger:
        """Return a logger whose lines carry the ids of the run and its trace."""
        return self.log.bind(run_id=run.run_id, trace_id=run.trace_id)

    def _turn(self, run_id: str) -> asyncio.Lock:
        """Return the lock that serialises inputs of a run in this process. The ledger's sequence orders other processes."""
        turn = self.turns.get(run_id)
        if turn is None:
            turn = self.turns[run_id] = asyncio.Lock()
        return turn

    async def _continue(self, run_id: str, message_id: str) -> None:
        while True:
            run = (await self.ledger.get(run_id)).run
            step = next_step(run) if run is not None else None
            if run is None or step is None:
                if run is not None and run.sealed is not None:
                    self.left_behind(run_id)
                return
            if step == "seal":
                if (seconds := self._account_wait(run)) > 0:
                    self._seal_later(run_id, seconds)
                    return
                if self.bundles.outside:
                    self._store_beside(run)
                else:
                    await self._seal_or_owe(run, self._seal)
                return
            after = (await self._step(run_id, Continue(f"{message_id}:{step}"))).run
            if after is not None and next_step(after) == step:
                if step == "pull":
                    self._wake_later(self.pulling, run_id, _PULL_PAUSE)
                return  # the run waits for locks, the puller, or in the merge queue

    def _account_wait(self, run: Run) -> float:
        """Return for how many seconds the seal waits for usage reports of interrupted work that may have called models."""
        if not awaited_accounts(run):
            return 0.0
        ended = datetime.fromisoformat(run.finished_at)
        return min(ACCOUNT_PATIENCE, ACCOUNT_PATIENCE - (self.clock.now() - ended).total_seconds())

    def _seal_later(self, run_id: str, seconds: float) -> None:
        """Seal a run after a delay although a usage report is missing; the report's arrival seals it earlier.

        A process that ends leaves the seal to others.
        """
        self._wake_later(self.sealing_later, run_id, seconds)

    def _wake_later(self, waiting: dict[str, asyncio.Task[None]], run_id: str, seconds: float) -> None:
        """Continue a run after a pause, in which its other inputs have their turn, unless it is in ``waiting`` already."""

        async def wake() -> None:
            try:
                await asyncio.sleep(seconds)
            finally:
                waiting.pop(run_id, None)
            await self._wake(run_id)

        if run_id not in waiting:
            waiting[run_id] = asyncio.get_running_loop().create_task(wake())

    async def _step(self, run_id: str, item: Input, assumed: Position | None = None) -> Outcome:
        """Judge, decide, append, execute; start again when another gatekeeper appended first.

        Raises UnavailableError when the disk has no space for the result; the input is then redelivered.
        """
        self._check_room(run_id, item)
        for _ in range(CONFLICT_TRIES):
            remembered = self.ledger.known(run_id)
            position = assumed or remembered or await self.ledger.load(run_id)
            assumed = None
            asked = required_checks(position.run, item)
            verdicts = [await self.gates.answer(question) for question in asked]
            transition = decide(position.run, item, verdicts, self.clock.now())
            if transition is None:
                if position is remembered and await self._has_moved(position, run_id, item):
                    continue
                if position.run is None and not isinstance(item, Submitted):
                    raise MalformedError(f"there is no run {run_id}", code="run_unknown")
                if isinstance(item, RoleReplied):
                    # A duplicate, out of turn, of an earlier attempt, or of an ended run.
                    self.log.info("answer_ignored", run_id=run_id, role=item.role, message_id=item.message_id)
                refusal = next((verdict.report for verdict in verdicts if not verdict.passed), None)
                return Refused(position.run, refusal) if refusal is not None else Ignored(position.run)
            try:
                after = await self.ledger.append(position, transition)
            except ConflictError:
                self.metrics.ledger_conflict()
                self.ledger.forget(run_id)
                continue
            for verdict in verdicts:
                report = verdict.report
                seconds = (report.duration_ms or 0) / 1000
                self.metrics.gate_decision(report.gate, report.verdict, report.code, seconds, transition.events[0].trace_id)
            measure(self.metrics, after)
            run = after.run
            if run is None:
                raise MalformedError(f"{run_id}: a transition that makes no run", code="bad_event")
            await self._carry_out(run, transition)
            events = tuple(e.event_of(record) for record in transition.events)
            return Recorded(run, events, after.transitions)
        raise BusError(f"{run_id}: {CONFLICT_TRIES} conflicts in a row")

    async def _has_moved(self, position: Position, run_id: str, item: Input) -> bool:
        """Return whether the run is further than this process remembered.

        An input without effect on the remembered state may have one on the actual state. For example, the answer to a task that
        another gatekeeper dispatched must not be dropped.
        """
        if isinstance(item, Submitted):
            return False  # it never has an effect on an existing run
        return (await self.ledger.load(run_id)).sequence != position.sequence

    async def _carry_out(self, run: Run, transition: Transition) -> None:
        self._log(run).info(
            "transition", number=transition.number, state=run.state, events=[event.event_type for event in transition.events]
        )
        if run.sealed is not None:
            if self.accounts is not None:
                await self.accounts.settle(run)
            return
        await asyncio.gather(self.dispatcher.give(run, transition.commands), self._write_events(run, transition))
        if run.ended:
            self.behind.pop(run.run_id, None)  # the seal writes all events
            await self._stop_work(run)
        elif run.state in WAITING and run.locks is None:
            await self._release(run)

    async def _write_events(self, run: Run, transition: Transition) -> None:
        """Write the events to the bundle. If the disk refuses, the run is blocked until it accepts them."""
        try:
            await self.bundles.append(run, transition.events)
        except UnavailableError as error:
            self.behind[run.run_id] = error.message
            self._log(run).error("evidence_unwritable", code=error.reason, cause=error.message)

    def _check_room(self, run_id: str, item: Input) -> None:
        """Check the disk space. Ending a run on demand and recording its seal need no additional space."""
        if isinstance(item, AbortReceived | SealReported):
            return
        self.room()
        if run_id in self.behind:
            raise UnavailableError(self.behind[run_id], code=UNWRITABLE)

    async def _stop_work(self, run: Run) -> None:
        """Release the paths of an ended run, stop the roles that work for it, and withdraw its tasks."""
        if any(task.status == "RUNNING" for task in run.tasks.values()) or open_summonses(run):
            await self.bus.broadcast(CANCEL_SUBJECT, cancel_notice(run.run_id))  # repeated by projections/cancellations.py
            await self.dispatcher.withdraw(run)
        await self._release(run)

    async def _release(self, run: Run) -> None:
        """Release the locks and waiting entries of the run, and continue the runs that waited for them."""
        if run.plan is None:
            return  # it never claimed paths
        for run_id in await self.gates.locks.release(run.accepted.repository_key, run.run_id):
            waking = asyncio.get_running_loop().create_task(self._wake(run_id))
            self.background.add(waking)
            waking.add_done_callback(self.background.discard)

    async def _wake(self, run_id: str) -> None:
        """Continue a run that waited. If this fails, any gatekeeper later finds the run stalled."""
        try:
            await self.advance(run_id, Continue(f"{run_id}:woken"))
            run = (await self.ledger.get(run_id)).run
            if run is not None and run.ended:
                await self._release(run)  # it ended while it waited and is still in the table
        except UnavailableError as error:
            self.log.warning("run_left_for_later", run_id=run_id, code=error.reason, cause=error.message)
        except GatewrightError as error:
            self.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named

    async def pay_debts(self) -> None:
        """Write events that a disk refused, and seal runs whose bundle could not be written. Failures stay in the list.

        1. Events come first: they need only this host.
        2. One request probes the bundle store before all bundles are sent there.
        3. Other code paths complete them too: a stalled run is taken up, and another gatekeeper may seal it.
        4. Runs are independent: a run with an unreadable history is reported and blocks no other.

        Raises:
            UnavailableError: the disk has no space.
            StoreError: the bundle store cannot be used.
        """
        for run_id in tuple(self.behind):  # 1
            await self._pay(run_id, self._catch_up)
        await self.bundles.check()  # 2
        for run_id in tuple(self.owed):
            await self._pay(run_id, self._seal_owed)

    async def _pay(self, run_id: str, pay: Callable[[str], Awaitable[None]]) -> None:
        async with self._turn(run_id):
            try:
                await pay(run_id)
            except MalformedError as error:  # 4
                self.behind.pop(run_id, None)
                self.owed.pop(run_id, None)
                self.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named

    async def _seal_owed(self, run_id: str) -> None:
        run = (await self.ledger.load(run_id)).run
        if run is None or run.sealed is not None:  # 3
            self.owed.pop(run_id, None)
        else:
            await self._continue(run_id, f"{run_id}:owed")

    async def _catch_up(self, run_id: str) -> None:
        if run_id not in self.behind:
            return
        position = await self.ledger.load(run_id)
        records = [record for transition in position.transitions for record in transition.events]
        try:
            if position.run is not None:
                await self.bundles.append(position.run, records)
        except UnavailableError as error:
            self.behind[run_id] = error.message
        else:
            self.behind.pop(run_id, None)
            self.log.info("evidence_written", run_id=run_id)

    def _store_beside(self, run: Run) -> None:
        """Seal a run in the background when its bundle goes to an external store: no input and no other run waits for it."""
        if run.run_id in self.storing:
            return
        self.storing.add(run.run_id)
        storing = asyncio.get_running_loop().create_task(self._store(run))
        self.background.add(storing)
        storing.add_done_callback(self.background.discard)

    async def _store(self, run: Run) -> None:
        try:
            # Few at the same time: building a bundle uses threads of the executor that decisions share.
            async with self.storing_places:
                with host_errors():
                    await self._seal_or_owe(run, self._seal_in_turn)
        except UnavailableError as error:
            self._log(run).warning("run_left_for_later", code=error.reason, cause=error.message)
        except GatewrightError as error:
            self._log(run).error("run_unreadable", code=error.reason, cause=error.message)
        finally:
            self.storing.discard(run.run_id)

    async def _seal_or_owe(self, run: Run, seal: Callable[[Run], Awaitable[None]]) -> None:
        """Seal a run. If the bundle cannot be written now, retry later: the run has ended, and its input is complete."""
        try:
            await seal(run)
        except UnavailableError as error:
            if error.reason != UNWRITABLE and not isinstance(error, StoreError):
                raise
            self.owed[run.run_id] = error.message
            self._log(run).error("bundle_not_sealed", code=error.reason, cause=error.message)
        else:
            self.owed.pop(run.run_id, None)

    async def _seal(self, run: Run) -> None:
        await self._report_seal(run, *await self._write_bundle(run))

    async def _seal_in_turn(self, run: Run) -> None:
        """Seal like ``_seal``, but hold the run's lock only for the ledger: its other inputs do not wait for the store."""
        written = await self._write_bundle(run)
        async with self._turn(run.run_id):
            await self._report_seal(run, *written)

    async def _write_bundle(self, run: Run) -> tuple[Sealed, MemoryEntry | None]:
        await self.dispatcher.withdraw(run)  # again: the bus may have been unreachable when the run ended
        await self._release(run)
        position = await self.ledger.get(run.run_id)
        secrets = self.gates.secrets
        artifacts = ScreenedArtifacts(self.gates.artifacts, run, secrets.scanner, secrets.clean)
        signer = await asyncio.to_thread(self.signer.current, run.finished_at)
        sealed = await self.bundles.seal(run, position.transitions, artifacts, signer, position.sequences)
        return sealed, await asyncio.to_thread(self._memory, run, sealed)

    async def _report_seal(self, run: Run, sealed: Sealed, memory: MemoryEntry | None) -> None:
        message_id = f"{run.run_id}:sealed"
        outcome = await self._step(
            run.run_id, SealReported(sealed.manifest_sha256, sealed.signer, sealed.location, message_id, memory)
        )
        counts = outcome.run.sealed if outcome.run is not None else None
        if outcome.run is not None and self.gates.memories is not None:
            self.gates.memories.note(outcome.run)
        if counts is not None and counts.manifest_sha256 != sealed.manifest_sha256:
            # Another key, or another version of this program: two different bundles of one run would both appear valid.
            await self.bundles.withdraw(run.run_id, sealed.manifest_sha256)
            self._log(run).error("bundle_withdrawn", signer=sealed.signer, sealed_by=counts.signer)
        else:
            self._log(run).info("bundle_sealed", status=run.status, location=sealed.location)
            if isinstance(outcome, Recorded):
                self._export_trace(outcome.run, outcome.transitions)
        if counts is not None:
            await self.bundles.settled(run.run_id, counts.location)
        self.left_behind(run.run_id)

    def _memory(self, run: Run, sealed: Sealed) -> MemoryEntry | None:
        """Return the memory entry for later runs; None when policy disabled memory, or no summary could be built."""
        if run.accepted.memory is None or not sealed.packet:
            return None
        scanner = self.gates.secrets.scanner
        packet = codec.decode(sealed.packet, ProgressPacket)
        digest = hashlib.sha256(sealed.packet).hexdigest()
        return entry_of(packet, digest, sealed.manifest_sha256, lambda text: redact_words(text, scanner) == text)

    def _export_trace(self, run: Run, transitions: Sequence[Transition]) -> None:
        """Export the trace. It is no evidence: a failure is logged and ignored."""
        if isinstance(self.spans, NoSpans):
            return
        try:
            for span in run_spans(run, transitions):
                finish(self.spans, span)
        except MalformedError as error:
            self._log(run).warning("trace_not_told", code=error.reason, cause=error.message)
