"""Ledgers of several runs for the board: entries as they lie in the stream, one run's between another's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from gatewright.contracts import Transition
from gatewright.run import state
from gatewright.view.board import SequencedTransition
from tests.evidence.recorded_runs import START, RecordedRun


def run_id_of(number: int) -> str:
    return state.run_id_of(str(number))


def make_run(number: int, kind: str = "success", *, transitions: int | None = None) -> tuple[Transition, ...]:
    """The transitions of a recorded run under an id of its own, or the first so many of them; a higher number is newer."""
    made = RecordedRun(key=str(number), start=START + timedelta(milliseconds=number))
    _play(made, kind)
    return tuple(made.transitions[:transitions])


def _play(run: RecordedRun, kind: str) -> None:
    match kind:
        case "aborted":
            run.accept()
            run.plan()
            run.end("ABORTED", "aborted", "changed my mind")
        case "open":
            run.accept()
            run.plan()
        case "success":
            run.accept()
            run.plan()
            run.work()
            run.compose()
            run.pass_review()
            run.land()
        case _:
            msg = f"{kind} is no kind of run"
            raise ValueError(msg)


def interleaved(runs: Sequence[Sequence[Transition]], first: int = 1) -> tuple[SequencedTransition, ...]:
    """The entries of these runs in turns, by stream sequence from ``first`` on."""

    def turns() -> Iterator[Transition]:
        for place in range(max(map(len, runs))):
            yield from (run[place] for run in runs if place < len(run))

    return tuple(SequencedTransition(sequence, entry) for sequence, entry in enumerate(turns(), first))
