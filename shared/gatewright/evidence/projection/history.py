"""A run that has ended, with all the records that its bundle holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from gatewright.contracts import OrchestratorEvent, Transition
from gatewright.errors import MalformedError
from gatewright.rules.gate_evidence import POLICIES
from gatewright.run import events as e
from gatewright.run.history import FollowedRun, follow_all
from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class RunHistory(FollowedRun):
    """An ended run with its past. ``records`` ends before the seal."""

    records: tuple[OrchestratorEvent, ...] = ()

    def policies(self) -> tuple[str, ...]:
        """The sha256 of the policies that it was accepted under, and of the others that a gate judged by, in their order.

        There are others where the operator changed them while the run went on.
        """
        seen = [found.digest for gate in self.gates for found in gate.evidence if found.name == POLICIES]
        return tuple(dict.fromkeys([self.run.accepted.policy_sha256, *seen]))


def evidence_records(transitions: Iterable[Transition]) -> tuple[OrchestratorEvent, ...]:
    """The events that go into a bundle: all but those about the bundle itself."""
    records = (record for transition in transitions for record in transition.events)
    return tuple(record for record in records if record.event_type not in e.ABOUT_BUNDLES)


def evidence_transitions(transitions: Iterable[Transition]) -> int:
    """How many ledger messages the bundle rests on: the number of the last one that holds more than the seal."""
    return max((t.number for t in transitions if evidence_records([t])), default=0)


def tell(run: Run, records: Sequence[OrchestratorEvent]) -> RunHistory:
    """The history of ``run``, which is what ``records`` fold to.

    Raises MalformedError (``run_not_ended``) while the run is open, and for an event whose payload does not fit.
    """
    past = follow_all(records)
    if past is None or not run.ended or not run.finished_at:
        raise MalformedError(f"run {run.run_id} has not ended", code="run_not_ended")
    known = {each.name: getattr(past, each.name) for each in fields(FollowedRun)}
    return RunHistory(**known | {"run": run}, records=tuple(records))
