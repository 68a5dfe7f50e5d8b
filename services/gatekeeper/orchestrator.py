"""The shell around the decider: takes an input, has it judged, decided and stored, and carries out what follows.

Every step may be repeated: a crash between any two of them is made good by the redelivery of the input, or by ``take_up`` in
the gatekeeper that finds that no other moves the run. What two of them do at the same time is settled by the ledger's sequence.
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
from gatewright.ledger.spans import run_spans
from gatewright.ledger.store import NOWHERE, Ledger, Position
from gatewright.order_artifacts.canonical_memory import entry_of
from gatewright.rules.summons import open_summonses
from gatewright.run import events as e
from gatewright.run.spending import awaited_accounts
from gatewright.run.state import Run
from gatewright.secrets.documents import redact_words
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

#: Bundles that are made and stored in the background at a time.
_STORED_TOGETHER = 4
#: Seconds for which the seal of an ended run waits for what interrupted work reports.
ACCOUNT_PATIENCE = 10.0
#: Times an input is decided anew after another gatekeeper appended first.
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
    #: Ended runs whose bundle the disk did not take: run id -> cause.
    owed: dict[str, str] = field(default_factory=dict)
    #: Steps that no message is waiting for.
    background: set[asyncio.Task[None]] = field(default_factory=set)
    #: Ended runs whose bundle waits for the bundle store, in the background.
    storing: set[str] = field(default_factory=set)
    storing_places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STORED_TOGETHER))
    #: Open runs whose events the disk did not take: they stand still until it does.
    behind: dict[str, str] = field(default_factory=dict)
    #: Ended runs whose seal waits for reports of interrupted work.
    sealing_later: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    #: Raises UnavailableError when this host has no room for work.
    room: Callable[[], None] = lambda: None
    #: Where the trace of a run goes once it is sealed.
    spans: SpanSink = field(default_factory=NoSpans)

    async def accept(self, item: Submitted) -> bool:
        """Make a submission a run. True when it is new: it is in the ledger and its first task is on the bus."""
        async with self._turn(item.run_id):
            # Nearly every submission is new: it is taken for new until the ledger says otherwise, which it does on append.
            known = self.ledger.known(item.run_id) or NOWHERE
            if known.run is not None:
                return False
            return isinstance(await self._step(item.run_id, item, known), Recorded)

    async def advance(self, run_id: str, item: Input) -> Outcome:
        """Let ``item`` count, then take every step that is the gatekeeper's own. What became of ``item`` alone is returned.

        A run that has to wait for locks waits in the ledger and in the lock table; the gatekeeper that releases them goes on
        with it. Raises BusError when the bus is away: bring the input again. Raises MalformedError (``run_unknown``) for what
        is about no run.
        """
        async with self._turn(run_id):
            outcome = await self._step(run_id, item)
            await self._continue(run_id, item.message_id)
            return outcome

    async def reload(self, run_id: str) -> Run:
        """The run as the ledger has it now: another gatekeeper may have moved it. Raises MalformedError (``run_unknown``)."""
        self.ledger.forget(run_id)
        run = (await self.ledger.get(run_id)).run
        if run is None:
            raise MalformedError(f"there is no run {run_id[:200]}", code="run_unknown")
        return run

    async def take_up(self, run_id: str, under_way: UnderWay) -> bool:
        """Finish what this process or another began and left; True when there is nothing more to do for the run, ever.

        Raises UnavailableError when it cannot be done now, MalformedError when the run's history cannot be read.
        """
        turn = self._turn(run_id)
        if turn.locked():
            return False  # it is being moved, here and now
        async with turn:
            self.ledger.forget(run_id)
            position = await self.ledger.load(run_id)
            run = position.run
            if run is not None and run.sealed is None:
                self._log(run).info("run_taken_up", state=run.state)
                if run.ended:
                    await self._stop_work(run)
                else:
                    if run.parked and run.locks is None:
                        await self._release(run)
                    await self.dispatcher.give_missing(run, position.transitions, self.clock.now(), under_way)
                await self._continue(run_id, f"resume:{run.transitions}")
                run = (await self.ledger.get(run_id)).run
            if run is not None and run.sealed is None:
                return False
            self.left_behind(run_id)
            return True

    async def current(self, run_id: str) -> Run | None:
        """A run as the ledger has it; one that is over is not remembered, or old keys sent again would fill the memory."""
        run = (await self.ledger.get(run_id)).run
        if run is not None and run.sealed is not None:
            self.left_behind(run_id)
        return run

    def left_behind(self, run_id: str) -> None:
        """The run is over and sealed, by whichever gatekeeper: nothing about it need be remembered."""
        self.ledger.forget(run_id)
        self.dispatcher.forget(run_id)

    async def moved_elsewhere(self, run_id: str) -> None:
        """Another gatekeeper has moved a run, or sealed it: what that has made room for is given out. Raises BusError."""
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
        """Let go of what was made here of a bundle that is kept elsewhere, once the ledger says so. Raises BusError."""
        if run_id not in self.bundles.copies():
            return
        run = (await self.ledger.load(run_id)).run
        if run is not None and run.sealed is not None:
            await self.bundles.settled(run_id, run.sealed.location)
            self.left_behind(run_id)

    @property
    def policies(self) -> Policies:
        """What the operator allows."""
        return self.gates.policies

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.bus, self.policies.shares, self.policies.beats)

    def _log(self, run: Run) -> Logger:
        """For lines about a run: they carry its id, and that of its trace."""
        return self.log.bind(run_id=run.run_id, trace_id=run.trace_id)

    def _turn(self, run_id: str) -> asyncio.Lock:
        """One input of a run at a time in this process; other processes are met by the ledger's sequence."""
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
                return  # it waits for locks

    def _account_wait(self, run: Run) -> float:
        """Seconds for which the seal waits for reports of work that the end has interrupted while it may have asked models."""
        if not awaited_accounts(run):
            return 0.0
        ended = datetime.fromisoformat(run.finished_at)
        return min(ACCOUNT_PATIENCE, ACCOUNT_PATIENCE - (self.clock.now() - ended).total_seconds())

    def _seal_later(self, run_id: str, seconds: float) -> None:
        """Seal a run after a while although a report is missing; a report that comes seals it before.

        A process that ends leaves the seal to the others.
        """
        if run_id not in self.sealing_later:
            waiting = asyncio.get_running_loop().create_task(self._seal_without(run_id, seconds))
            self.sealing_later[run_id] = waiting
            waiting.add_done_callback(lambda _: self.sealing_later.pop(run_id, None))

    async def _seal_without(self, run_id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.sealing_later.pop(run_id, None)
        await self._wake(run_id)

    async def _step(self, run_id: str, item: Input, assumed: Position | None = None) -> Outcome:
        """Judge, decide, append, carry out; again from the start when another gatekeeper was quicker.

        Raises UnavailableError when the disk has no room for what would follow: the input is given back, and comes again.
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
                    # Said before, said out of turn, of an earlier attempt, or of a run that is over.
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
        """Whether the run is further than this process remembered.

        What does not count for a run as it was may count for it as it is: the answer to a task that another gatekeeper gave out
        must not be thrown away because this one has not heard of it.
        """
        if isinstance(item, Submitted):
            return False  # it never counts for a run that exists
        return (await self.ledger.load(run_id)).sequence != position.sequence

    async def _carry_out(self, run: Run, transition: Transition) -> None:
        self._log(run).info(
            "transition", number=transition.number, state=run.state, events=[event.event_type for event in transition.events]
        )
        if run.sealed is not None:
            return
        await asyncio.gather(self.dispatcher.give(run, transition.commands), self._keep(run, transition))
        if run.ended:
            self.behind.pop(run.run_id, None)  # the seal writes all of it
            await self._stop_work(run)
        elif run.parked and run.locks is None:
            await self._release(run)

    async def _keep(self, run: Run, transition: Transition) -> None:
        """Write the events to the bundle. A run whose evidence the disk does not take goes no further until it does."""
        try:
            await self.bundles.append(run, transition.events)
        except UnavailableError as error:
            self.behind[run.run_id] = error.message
            self._log(run).error("evidence_unwritable", code=error.reason, cause=error.message)

    def _check_room(self, run_id: str, item: Input) -> None:
        """Ending a run on demand, and saying that it was sealed, need no room that the run has not taken."""
        if isinstance(item, AbortReceived | SealReported):
            return
        self.room()
        if run_id in self.behind:
            raise UnavailableError(self.behind[run_id], code=UNWRITABLE)

    async def _stop_work(self, run: Run) -> None:
        """A run that has ended holds no paths; roles that work for it stop, and none is given its tasks again."""
        if any(task.status == "RUNNING" for task in run.tasks.values()) or open_summonses(run):
            await self.bus.broadcast(CANCEL_SUBJECT, cancel_notice(run.run_id))  # and again, see projections/cancellations.py
            await self.dispatcher.withdraw(run)
        await self._release(run)

    async def _release(self, run: Run) -> None:
        """Give up what the run holds or waits for, and go on with the runs that waited for it."""
        if run.plan is None:
            return  # it never came so far
        for run_id in await self.gates.locks.release(run.accepted.repository_key, run.run_id):
            waking = asyncio.get_running_loop().create_task(self._wake(run_id))
            self.background.add(waking)
            waking.add_done_callback(self.background.discard)

    async def _wake(self, run_id: str) -> None:
        """Go on with a run that waited. One that is missed here is found standing still, by any gatekeeper."""
        try:
            await self.advance(run_id, Continue(f"{run_id}:woken"))
            run = (await self.ledger.get(run_id)).run
            if run is not None and run.ended:
                await self._release(run)  # it ended while it waited, and its place was left in the table
        except UnavailableError as error:
            self.log.warning("run_left_for_later", run_id=run_id, code=error.reason, cause=error.message)
        except GatewrightError as error:
            self.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named

    async def pay_debts(self) -> None:
        """Write the events that a disk refused, and seal the runs whose bundle could not be written. What fails stays owed.

        1. events come first: they need only this host  2. one request probes the bundle store before all debts are sent there
        3. other paths pay debts too: a stalled run is taken up, and another gatekeeper may seal it  4. debts are independent: a
        run whose history cannot be read is reported, and stops no other.
        Raises UnavailableError; StoreError when the bundle store cannot be used.
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
        """Seal a run in the background when its bundle goes to an outside system: no input and no other run waits for it."""
        if run.run_id in self.storing:
            return
        self.storing.add(run.run_id)
        storing = asyncio.get_running_loop().create_task(self._store(run))
        self.background.add(storing)
        storing.add_done_callback(self.background.discard)

    async def _store(self, run: Run) -> None:
        try:
            # Few at a time: making a bundle takes threads of the executor that decisions share.
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
        """A bundle that cannot be written now is owed: the run has ended, and its input has nothing more to bring about."""
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
        """As ``_seal``, but take the run's turn only for the ledger: other inputs of the run do not wait for the store."""
        written = await self._write_bundle(run)
        async with self._turn(run.run_id):
            await self._report_seal(run, *written)

    async def _write_bundle(self, run: Run) -> tuple[Sealed, MemoryEntry | None]:
        await self.dispatcher.withdraw(run)  # again: the bus may have been away when the run ended
        await self._release(run)
        position = await self.ledger.get(run.run_id)
        secrets = self.gates.secrets
        artifacts = ScreenedArtifacts(self.gates.artifacts, run, secrets.scanner, secrets.clean)
        signer = await asyncio.to_thread(self.signer.current, run.finished_at)
        sealed = await self.bundles.seal(run, position.transitions, artifacts, signer, position.sequences)
        return sealed, await asyncio.to_thread(self._memory, run, sealed)

    async def _report_seal(self, run: Run, sealed: Sealed, memory: MemoryEntry | None) -> None:
        said = f"{run.run_id}:sealed"
        outcome = await self._step(
            run.run_id, SealReported(sealed.manifest_sha256, sealed.signer, sealed.location, said, memory)
        )
        counts = outcome.run.sealed if outcome.run is not None else None
        if outcome.run is not None and self.gates.memories is not None:
            self.gates.memories.note(outcome.run)
        if counts is not None and counts.manifest_sha256 != sealed.manifest_sha256:
            # Another key, or another version of this program: two bundles of one run would both seem to be the one.
            await self.bundles.withdraw(run.run_id, sealed.manifest_sha256)
            self._log(run).error("bundle_withdrawn", signer=sealed.signer, sealed_by=counts.signer)
        else:
            self._log(run).info("bundle_sealed", status=run.status, location=sealed.location)
            if isinstance(outcome, Recorded):
                self._tell_trace(outcome.run, outcome.transitions)
        if counts is not None:
            await self.bundles.settled(run.run_id, counts.location)
        self.left_behind(run.run_id)

    def _memory(self, run: Run, sealed: Sealed) -> MemoryEntry | None:
        """What later runs are told of this one: nothing where the policy had it off, or no packet could be made."""
        if run.accepted.memory is None or not sealed.packet:
            return None
        scanner = self.gates.secrets.scanner
        packet = codec.decode(sealed.packet, ProgressPacket)
        digest = hashlib.sha256(sealed.packet).hexdigest()
        return entry_of(packet, digest, sealed.manifest_sha256, lambda text: redact_words(text, scanner) == text)

    def _tell_trace(self, run: Run, transitions: Sequence[Transition]) -> None:
        """Comfort, and no evidence: what cannot be told is said in the log, and the run is over all the same."""
        if isinstance(self.spans, NoSpans):
            return
        try:
            for span in run_spans(run, transitions):
                finish(self.spans, span)
        except MalformedError as error:
            self._log(run).warning("trace_not_told", code=error.reason, cause=error.message)
