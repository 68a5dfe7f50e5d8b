"""The ledger on the bus: load a run, append a transition. Optimistic concurrency is the only lock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from gatewright.bus.port import Bus
from gatewright.bus.topology import run_subject
from gatewright.contracts import Transition, codec
from gatewright.errors import MalformedError
from gatewright.ledger.evolve import fold
from gatewright.ledger.run import Run


@dataclass(frozen=True, slots=True)
class Position:
    """A run as the ledger holds it; ``sequence`` is the stream sequence of its last message (0: no run yet).

    ``sequences`` are those of all its messages, one for each of ``transitions``.
    """

    run: Run | None
    sequence: int
    transitions: tuple[Transition, ...] = ()
    sequences: tuple[int, ...] = ()


NOWHERE = Position(None, 0)


class Ledger:
    """Runs by id. Keeps what it has folded; a ConflictError on append means: ``load`` again and decide again."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, Position] = {}

    async def get(self, run_id: str) -> Position:
        """The run as far as this process knows it, read from the ledger when it does not."""
        return self.known(run_id) or await self.load(run_id)

    def known(self, run_id: str) -> Position | None:
        """What this process remembers of the run; None says nothing about the ledger."""
        return self._known.get(run_id)

    async def load(self, run_id: str) -> Position:
        """Read the run anew. Raises MalformedError when the ledger does not hold a valid history."""
        transitions, sequences = [], []
        async for message in self._bus.replay(run_subject(run_id)):
            transitions.append(read_transition(message.data, run_id))
            sequences.append(message.sequence)
        position = Position(fold(transitions), sequences[-1] if sequences else 0, tuple(transitions), tuple(sequences))
        self._remember(run_id, position)
        return position

    async def append(self, position: Position, transition: Transition) -> Position:
        """Store the next transition. Raises ConflictError when another one came first, BusError when it is not known."""
        run = fold([transition], position.run)
        ack = await self._bus.publish(
            run_subject(transition.run_id),
            codec.encode(transition),
            schema="transition.v1",
            message_id=f"{transition.run_id}:{transition.number}:{transition.events[-1].hash[:16]}",
            expected_subject_sequence=position.sequence,
        )
        advanced = Position(run, ack.sequence, (*position.transitions, transition), (*position.sequences, ack.sequence))
        self._remember(transition.run_id, advanced)
        return advanced

    def forget(self, run_id: str) -> None:
        """Drop what is remembered: after a conflict, or when the run has ended and its bundle is sealed."""
        self._known.pop(run_id, None)

    async def everything(self, unreadable: Callable[[str, MalformedError], None]) -> AsyncIterator[Position]:
        """Every run in the ledger, folded; for a starting gatekeeper and for listings.

        A run whose history cannot be read is passed over and told to ``unreadable``: it must not stand in the way of others.
        """
        runs: dict[str, Position] = {}
        broken: set[str] = set()
        async for message in self._bus.replay(run_subject("*")):
            run_id = message.subject.removeprefix(run_subject(""))
            if run_id in broken:
                continue
            try:
                runs[run_id] = _after(runs.get(run_id, NOWHERE), read_transition(message.data, run_id), message.sequence)
            except MalformedError as error:
                broken.add(run_id)
                runs.pop(run_id, None)
                unreadable(run_id, error)
        for position in runs.values():
            yield position

    def _remember(self, run_id: str, position: Position) -> None:
        if position.run is None:
            self._known.pop(run_id, None)
        else:
            self._known[run_id] = position


def _after(before: Position, transition: Transition, sequence: int) -> Position:
    run = fold([transition], before.run)
    return Position(run, sequence, (*before.transitions, transition), (*before.sequences, sequence))


def read_transition(data: bytes, run_id: str) -> Transition:
    """A ledger message as a transition of that run. Raises MalformedError."""
    transition = codec.decode(data, Transition)
    if transition.run_id != run_id:
        raise MalformedError(f"a transition of {transition.run_id} on the subject of {run_id}", code="bad_event")
    return transition
