"""Rehydration (specification 3, replay): the run's states from its events, through the same ``evolve`` that made them.

No model is called, no command runs, no bus is used. Every document that follows from the events is made again and compared
with the one in the bundle. ``verify`` checks who signed the bundle; here only whether it is consistent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.contracts import OrchestratorEvent
from gatewright.evidence.verification.findings import VerificationFinding
from gatewright.evidence.verification.verify import run_steps
from gatewright.run.evolve import evolve
from gatewright.run.state import Run

#: The finding of ``run_steps`` without a trusted key, which is irrelevant for a replay.
_ABOUT_TRUST = "no_trusted_key"


@dataclass(frozen=True, slots=True)
class Step:
    """An event and its result. ``ts`` is RFC 3339; ``state`` is the run's state after it."""

    seq: int
    ts: str
    event_type: str
    task_id: str | None
    attempt: int | None
    state: str
    entered: bool


@dataclass(frozen=True, slots=True)
class Rehydration:
    """A replayed run. ``derived`` are the files that follow from its events, ``findings`` the inconsistencies."""

    location: Path
    run_id: str
    status: str
    steps: tuple[Step, ...]
    derived: tuple[str, ...]
    findings: tuple[VerificationFinding, ...]
    #: Steps of the comparison that could not be taken, and why.
    unchecked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Return whether everything was compared, and is consistent."""
        return not self.findings and not self.unchecked and bool(self.steps)


def rehydrate(bundle: Path) -> Rehydration:
    """Replay the run in the folder ``bundle``. Never raises because of the bundle: defects are findings."""
    reading, _, unchecked = run_steps(bundle, ())
    return Rehydration(
        location=bundle,
        run_id=reading.run.run_id if reading.run else "",
        status=reading.run.status if reading.run else "",
        steps=retrace(reading.records),
        derived=reading.derived,
        findings=tuple(finding for finding in reading.findings.found if finding.code != _ABOUT_TRUST),
        unchecked=unchecked,
    )


def retrace(records: Sequence[OrchestratorEvent]) -> tuple[Step, ...]:
    """The state of the run after each of its events. Raises MalformedError when one cannot follow the one before."""
    run: Run | None = None
    steps = []
    for record in records:
        before = run
        run = evolve(run, record)
        entered = before is None or run.state != before.state
        steps.append(Step(record.seq, record.ts, record.event_type, record.task_id, record.attempt, run.state, entered))
    return tuple(steps)
