"""The ledger on the bus: loads a run, appends a transition. Optimistic concurrency is the only lock.

``entry_validation.py`` selects the entries and ignores other messages. An append expects the sequence of the last message on
the run's subject, foreign ones included.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import run_subject
from gatewright.bus.versions import read_version, written_here
from gatewright.clock import new_id
from gatewright.contracts import Transition, codec
from gatewright.errors import GatewrightError, MalformedError, UnavailableError, VerificationError
from gatewright.ledger.entry_validation import TRANSITION_SCHEMA, End, next_link
from gatewright.run.evolve import fold
from gatewright.run.history import FollowedRun, follow_all
from gatewright.run.state import Run

#: Number of reported foreign messages that a process remembers.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Position:
    """State of a run in the ledger; ``sequence`` is the stream sequence of its subject's last message (0: there is none).

    ``sequences`` are those of its entries, one for each of ``transitions``.
    """

    run: Run | None
    sequence: int
    transitions: tuple[Transition, ...] = ()
    sequences: tuple[int, ...] = ()

    def history(self) -> FollowedRun:
        """Return the run and its past.

        Raises:
            MalformedError: there is no run (``run_unknown``).
        """
        past = follow_all(record for transition in self.transitions for record in transition.events)
        if past is None:
            raise MalformedError("the ledger has no event of this run", code="run_unknown")
        return past


NOWHERE = Position(None, 0)


class Ledger:
    """Runs by id, with a cache of folded runs. After a ConflictError on append: ``load`` and decide again.

    ``foreign`` is called once for every message that is no entry, with its run id and sequence. ``writer`` is part of every
    message id: of two gatekeepers with the same transition at the same time, only one may consider it its own.
    """

    def __init__(self, bus: Bus, foreign: Callable[[str, int], None] | None = None, *, writer: str | None = None) -> None:
        self._bus = bus
        self._foreign = foreign
        self._reported_foreign: set[int] = set()
        self._writer = writer or new_id()[:12]
        self._known: dict[str, Position] = {}

    async def get(self, run_id: str) -> Position:
        """Return the run from the cache, or load it."""
        return self.known(run_id) or await self.load(run_id)

    def known(self, run_id: str) -> Position | None:
        """Return the cached run; None when it is not cached, whether or not the ledger has it."""
        return self._known.get(run_id)

    async def load(self, run_id: str) -> Position:
        """Load the run from the ledger.

        Raises:
            MalformedError: the history is invalid.
            UnavailableError: a gatekeeper of another version wrote unreadable entries (``other_version``).
        """
        position = NOWHERE
        async for message in self._bus.replay(run_subject(run_id)):
            position = self._after(position, message, run_id)
        self._remember(run_id, position)
        return position

    async def append(self, position: Position, transition: Transition) -> Position:
        """Store the next transition.

        Raises:
            ConflictError: another transition was stored first.
            BusError: the outcome is unknown.
        """
        run = fold([transition], position.run)
        ack = await self._bus.publish(
            run_subject(transition.run_id),
            codec.encode(transition),
            schema=TRANSITION_SCHEMA,
            message_id=f"{transition.run_id}:{transition.number}:{transition.events[-1].hash[:16]}:{self._writer}",
            expected_subject_sequence=position.sequence,
            headers=written_here(),
        )
        advanced = Position(run, ack.sequence, (*position.transitions, transition), (*position.sequences, ack.sequence))
        self._remember(transition.run_id, advanced)
        return advanced

    def forget(self, run_id: str) -> None:
        """Drop a run from the cache: after a conflict, or when its bundle is sealed."""
        self._known.pop(run_id, None)

    def baselines(self) -> frozenset[str]:
        """Return the start commits of the cached runs, which include all open runs taken up here."""
        return frozenset(known.run.accepted.baseline_commit for known in self._known.values() if known.run is not None)

    async def everything(self, unreadable: Callable[[str, GatewrightError], None]) -> AsyncIterator[Position]:
        """Yield every run in the ledger, folded; for listings.

        A run with an unreadable history is skipped and passed to ``unreadable``, so that it does not block the others.
        """
        runs: dict[str, Position] = {}
        broken: set[str] = set()
        async for message in self._bus.replay(run_subject("*")):
            run_id = message.subject.removeprefix(run_subject(""))
            if run_id in broken:
                continue
            try:
                runs[run_id] = self._after(runs.get(run_id, NOWHERE), message, run_id)
            except (MalformedError, UnavailableError) as error:
                broken.add(run_id)
                runs.pop(run_id, None)
                unreadable(run_id, error)
        for position in runs.values():
            if position.run is not None:
                yield position

    def _after(self, before: Position, message: Message, run_id: str) -> Position:
        """Return the position after one more message of the run's subject."""
        return read_version(message, lambda: self._with_message(before, message, run_id))

    def _with_message(self, before: Position, message: Message, run_id: str) -> Position:
        run = before.run
        end = End() if run is None else End(run.transitions, run.seq, run.head)
        try:
            transition = next_link(message, run_id, end)
        except VerificationError as error:
            raise MalformedError(f"{run_id}: {error.message}", code=error.reason) from error
        if transition is None:
            self._report_foreign(run_id, message.sequence)
            return replace(before, sequence=message.sequence)
        sequences = (*before.sequences, message.sequence)
        return Position(fold([transition], run), message.sequence, (*before.transitions, transition), sequences)

    def _report_foreign(self, run_id: str, sequence: int) -> None:
        if self._foreign is not None and sequence not in self._reported_foreign:
            if len(self._reported_foreign) >= _REMEMBERED:
                self._reported_foreign.clear()
            self._reported_foreign.add(sequence)
            self._foreign(run_id, sequence)

    def _remember(self, run_id: str, position: Position) -> None:
        """Update the cache, but never to an older state: a read that started before an append may end after it."""
        known = self._known.get(run_id)
        if position.run is not None and (known is None or known.sequence <= position.sequence):
            self._known[run_id] = position
