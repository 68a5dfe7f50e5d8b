"""What makes many runs payable: an event loop that never waits, and a ledger whose entries are read back for some runs only."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, cast

from benchmarks.simulation.bus import Line
from gatewright.bus.topology import run_subject
from gatewright.contracts import Transition, codec
from gatewright.ledger.store import Ledger, Position


class _NothingComes(selectors.DefaultSelector):
    def select(self, _timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class LoopWithoutWaiting(asyncio.SelectorEventLoop):
    """Nothing comes from outside a simulation: no thread is needed, and no question to the kernel whether anything came."""

    def __init__(self) -> None:
        super().__init__(_NothingComes())

    def run_in_executor(self, _executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        done.set_result(func(*args))
        return done


class SharedReadings:
    """Where each open run stands after the last entry that a gatekeeper wrote; ``reads(run_id)``: whether all reads it back."""

    def __init__(self, reads: Callable[[str], bool]) -> None:
        self.reads = reads
        self.positions: dict[str, Position] = {}
        #: How often a run was read back by the product's code, and found to be what was written.
        self.compared = 0


class EconomicLedger(Ledger):
    """The product's ledger. What another gatekeeper wrote is not decoded, checked and folded again, but for some runs.

    Of those every entry is read back from its bytes by the product's code, and compared with what was written.
    """

    def __init__(self, line: Line, writer: str, shared: SharedReadings) -> None:
        super().__init__(cast("Any", line), writer=writer)
        self._line, self._shared = line, shared

    async def load(self, run_id: str) -> Position:
        written = self._shared.positions.get(run_id)
        entries = self._line.bus.entries(run_subject(run_id))
        if written is None or not entries or entries[-1].sequence != written.sequence:
            return await super().load(run_id)
        if not self._shared.reads(run_id):
            self._remember(run_id, written)
            return written
        read = await super().load(run_id)
        if _compared(read) != _compared(written):
            raise AssertionError(f"{run_id} is not read as it was written")
        self._shared.compared += 1
        return read

    async def append(self, position: Position, transition: Transition) -> Position:
        after = await super().append(position, transition)
        self._shared.positions[transition.run_id] = after
        return after


def _compared(position: Position) -> tuple[object, ...]:
    """What two readings have in common: events as bytes, since in memory one has tuples where the other has lists."""
    return position.run, position.sequence, position.sequences, tuple(map(codec.encode, position.transitions))
