"""The shell around the decider: takes an input, has it judged, decided and stored, and carries out what follows.

Every step may be repeated: a crash between any two of them is made good by the redelivery of the input or by ``resume``.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from gatewright.bus.port import TRACE_HEADER, Bus
from gatewright.bus.topology import CANCEL_SUBJECT, task_subject
from gatewright.clock import Clock
from gatewright.contracts import RequestTask, Transition, codec
from gatewright.contracts.records import CommandRef
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, ConflictError, MalformedError, UnavailableError
from gatewright.evidence.signing import Signer
from gatewright.evidence.writer import UNWRITABLE, BundleWriter
from gatewright.ledger.run import Run
from gatewright.ledger.store import NOWHERE, Ledger, Position
from gatewright.secrets.screening import ScreenedArtifacts
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics, RunOutcome
from services.gatekeeper.decider.decide import decide
from services.gatekeeper.decider.inputs import Continue, EvidenceRefused, Input, SealReported, Submitted
from services.gatekeeper.decider.questions import next_step, questions
from services.gatekeeper.gates.judge import Gates

#: Times an input is decided anew after another gatekeeper appended first.
CONFLICT_TRIES = 20
OUTCOMES: dict[str, RunOutcome] = {"SUCCESS": "success", "FAILED": "failed", "ABORTED": "aborted"}


@dataclass(frozen=True)
class Conductor:
    """Moves runs. One per process; any number of processes."""

    bus: Bus
    ledger: Ledger
    gates: Gates
    bundles: BundleWriter
    signer: Signer
    clock: Clock
    log: Logger
    metrics: Metrics
    turns: weakref.WeakValueDictionary[str, asyncio.Lock] = field(default_factory=weakref.WeakValueDictionary)
    #: Ended runs whose bundle the disk did not take: run id -> cause.
    owed: dict[str, str] = field(default_factory=dict)

    async def accept(self, item: Submitted) -> bool:
        """Make a submission a run. True when it is new: it is in the ledger and its first task is on the bus."""
        async with self._turn(item.run_id):
            # Nearly every submission is new: it is taken for new until the ledger says otherwise, which it does on append.
            known = self.ledger.known(item.run_id) or NOWHERE
            if known.run is not None:
                return False
            after = await self._step(item.run_id, item, known)
            return after.run is not None and after.run.transitions == 1

    async def advance(self, run_id: str, item: Input) -> bool:
        """Let ``item`` count, then take every step that is the gatekeeper's own.

        False when the run waits for locks that others hold: give the input back and bring it again.
        Raises BusError when the bus is away: the same.
        """
        async with self._turn(run_id):
            await self._step(run_id, item)
            return await self._continue(run_id, item.message_id)

    async def resume(self) -> None:
        """After a start: publish the tasks of open runs again (their message ids make it harmless) and take own steps."""

        def unreadable(run_id: str, error: MalformedError) -> None:
            self.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)

        async for position in self.ledger.everything(unreadable):
            run = position.run
            if run is None or run.sealed is not None:
                continue
            self.log.info("run_resumed", run_id=run.run_id, state=run.state)
            running = (task for task in run.tasks.values() if task.status == "RUNNING")
            if not run.ended:
                await self._publish(run, tuple(CommandRef(role=t.role, pool=t.pool, task_id=t.task_id) for t in running))
            async with self._turn(run.run_id):
                await self._continue(run.run_id, f"resume:{run.transitions}")

    def _turn(self, run_id: str) -> asyncio.Lock:
        """One input of a run at a time in this process; other processes are met by the ledger's sequence."""
        turn = self.turns.get(run_id)
        if turn is None:
            turn = self.turns[run_id] = asyncio.Lock()
        return turn

    async def _continue(self, run_id: str, message_id: str) -> bool:
        while True:
            run = (await self.ledger.get(run_id)).run
            step = next_step(run) if run is not None else None
            if run is None or step is None:
                return True
            if step == "seal":
                await self._seal_or_owe(run)
                return True
            after = await self._step(run_id, Continue(f"{message_id}:{step}"))
            if after.run is not None and next_step(after.run) == step:
                return False

    async def _step(self, run_id: str, item: Input, assumed: Position | None = None) -> Position:
        """Judge, decide, append, carry out; again from the start when another gatekeeper was quicker."""
        for _ in range(CONFLICT_TRIES):
            position = assumed or await self.ledger.get(run_id)
            assumed = None
            asked = questions(position.run, item)
            verdicts = [await self.gates.answer(question) for question in asked]
            transition = decide(position.run, item, verdicts, self.clock.now())
            if transition is None:
                return position
            try:
                after = await self.ledger.append(position, transition)
            except ConflictError:
                self.metrics.ledger_conflict()
                self.ledger.forget(run_id)
                continue
            for verdict in verdicts:
                report = verdict.report
                self.metrics.gate_decision(report.gate, report.verdict, report.code, (report.duration_ms or 0) / 1000)
            await self._carry_out(after, transition)
            return after
        raise BusError(f"{run_id}: {CONFLICT_TRIES} conflicts in a row")

    async def _carry_out(self, position: Position, transition: Transition) -> None:
        run = position.run
        if run is None:
            return
        log = self.log.bind(run_id=run.run_id)
        log.info(
            "transition", number=transition.number, state=run.state, events=[event.event_type for event in transition.events]
        )
        if run.sealed is not None:
            return
        _, refused = await asyncio.gather(self._publish(run, transition.commands), self._keep(run, transition))
        if refused and not run.ended:
            await self._step(run.run_id, EvidenceRefused(refused, f"{run.run_id}:{transition.number}:evidence"))
        if run.ended:
            seconds = (self.clock.now() - datetime.fromisoformat(run.created_at)).total_seconds()
            self.metrics.run_ended(OUTCOMES[run.status], seconds)
            await self._stop_work(run)

    async def _keep(self, run: Run, transition: Transition) -> str:
        """Write the events to the bundle; the cause when the disk does not take them, empty when it does."""
        try:
            await self.bundles.append(run, transition.events)
        except UnavailableError as error:
            self.log.error("evidence_unwritable", run_id=run.run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named
            return error.message
        return ""

    async def _publish(self, run: Run, commands: tuple[CommandRef, ...]) -> None:
        await asyncio.gather(*(self._publish_task(run, command) for command in commands))

    async def _publish_task(self, run: Run, command: CommandRef) -> None:
        document = task_document(run, command)
        await self.bus.publish(
            task_subject(command.role, command.pool),
            codec.encode(document),
            schema=codec.schema_of(document),
            message_id=command.task_id,
            headers={TRACE_HEADER: traceparent_of(run.trace_id, command.task_id)},
        )

    async def _stop_work(self, run: Run) -> None:
        """A run that has ended holds no paths, and whoever still works for it stops."""
        if any(task.status == "RUNNING" for task in run.tasks.values()):
            await self.bus.broadcast(CANCEL_SUBJECT, msgspec.json.encode(run.run_id))
        if run.locks is not None:
            await self.gates.locks.release(run.locks.repository_url, run.run_id)

    async def pay_debts(self) -> None:
        """Seal what could not be sealed when its run ended; what still cannot stays owed."""
        for run_id in tuple(self.owed):
            async with self._turn(run_id):
                await self._continue(run_id, f"{run_id}:owed")

    async def _seal_or_owe(self, run: Run) -> None:
        """A bundle that cannot be written now is owed: the run has ended, and its input has nothing more to bring about."""
        try:
            await self._seal(run)
        except UnavailableError as error:
            if error.reason != UNWRITABLE:
                raise
            self.owed[run.run_id] = error.message
            self.log.error("bundle_not_sealed", run_id=run.run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named
        else:
            self.owed.pop(run.run_id, None)

    async def _seal(self, run: Run) -> None:
        if run.locks is not None:
            await self.gates.locks.release(run.locks.repository_url, run.run_id)
        position = await self.ledger.get(run.run_id)
        artifacts = ScreenedArtifacts(self.gates.artifacts, run, self.gates.secrets.scanner)
        sealed = await self.bundles.seal(run, position.transitions, artifacts, self.signer, position.sequences)
        await self._step(
            run.run_id, SealReported(sealed.manifest_sha256, sealed.signer, sealed.location, f"{run.run_id}:sealed")
        )
        self.ledger.forget(run.run_id)
        self.log.info("bundle_sealed", run_id=run.run_id, status=run.status, location=sealed.location)


def traceparent_of(trace_id: str, task_id: str) -> str:
    """The W3C trace context of a task: the run's trace, and a span id that is the same for every delivery."""
    return f"00-{trace_id}-{hashlib.sha256(task_id.encode()).hexdigest()[:16]}-01"


def task_document(run: Run, command: CommandRef) -> Document:
    """What a command of the ledger puts on the bus: the task's contract, or for the pm the run's request."""
    task = run.tasks[command.task_id]
    if task.contract is not None:
        return task.contract
    if run.request is None:
        raise BusError(f"{command.task_id} has no document", code="internal_error")
    return RequestTask(
        run_id=run.run_id, task_id=task.task_id, baseline_commit=run.accepted.baseline_commit, request=run.request
    )
