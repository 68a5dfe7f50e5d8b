"""A small part of the crash matrix, one cell of every kind; the whole is ``python -m tests.faults.crash_matrix``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash_matrix import CELLS, VICTIMS, Cell, play
from tests.faults.crash_points import POINTS
from tests.waiting import PATIENCE

#: Each victim at another transition, and the points between which most can go wrong.
FEW = (
    *(Cell(victim, str(number)) for number, victim in enumerate(VICTIMS, 1)),
    *(Cell("inside", point) for point in ("after_append.4", "before_ack.worker", "after_landing", "sealing.10", "after_seal")),
)


def test_the_matrix_covers_every_service_transition_and_crash_point() -> None:
    assert {cell.victim for cell in CELLS} == {*VICTIMS, "inside"}
    assert len(CELLS) == len(set(CELLS)) == 10 * len(VICTIMS) + len(POINTS)


@pytest.mark.long
async def test_a_crash_at_any_step_loses_and_duplicates_no_run(tmp_path: Path) -> None:
    matrix, outcome = await play(tmp_path, FEW, gatekeepers=2, seconds=PATIENCE)
    assert outcome.faults == {}
    assert matrix.missed == []
    assert matrix.crashes.total() == len(FEW)
    assert outcome.sealed == outcome.runs == len(FEW)
