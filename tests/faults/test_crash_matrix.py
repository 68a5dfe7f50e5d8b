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


def test_the_matrix_has_a_cell_for_every_service_at_every_transition_and_for_every_point() -> None:
    assert {cell.victim for cell in CELLS} == {*VICTIMS, "inside"}
    assert len(CELLS) == len(set(CELLS)) == 10 * len(VICTIMS) + len(POINTS)


@pytest.mark.long
async def test_a_crash_at_any_step_loses_no_run_lands_none_twice_and_leaves_bundles_that_verify(tmp_path: Path) -> None:
    matrix, outcome = await play(tmp_path, FEW, gatekeepers=2, seconds=PATIENCE)
    assert outcome.faults == {}
    assert matrix.missed == []
    assert matrix.crashes.total() == len(FEW)
    assert outcome.sealed == outcome.runs == len(FEW)
